# The tree, the objects, the package and other processors: nothing here changes under a sanitizer.
tandem_check(layering package 30 "${python}" "${here}/layering.py" "${PROJECT_SOURCE_DIR}")
tandem_check(layering_can_fail package 30 "${python}" "${here}/layering.py" --self-test)

# Coverage and unoptimised builds are not what is installed; the audit looks at the optimised objects.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(shared_library $<$<BOOL:${BUILD_SHARED_LIBS}>:$<TARGET_FILE:tandem>>)
  tandem_check(audit package 60 "${python}" "${here}/audit.py" $<TARGET_FILE:tandem_internal> ${shared_library})
  tandem_check(audit_can_fail package 60 "${python}" "${here}/audit.py" --self-test "${CMAKE_C_COMPILER}")
endif()

find_program(CLANG_EXECUTABLE clang)
find_program(GCC_EXECUTABLE gcc)
set(compilers ${GCC_EXECUTABLE} ${CLANG_EXECUTABLE})
list(FILTER compilers EXCLUDE REGEX NOTFOUND)
tandem_check(header package 60 "${here}/install/header.sh" "${PROJECT_SOURCE_DIR}" ${compilers})
# One kind is built here already, the other is built by its test.
set(shared_build $<$<BOOL:${BUILD_SHARED_LIBS}>:${PROJECT_BINARY_DIR}>)
set(static_build $<$<NOT:$<BOOL:${BUILD_SHARED_LIBS}>>:${PROJECT_BINARY_DIR}>)
foreach(kind IN ITEMS shared static)
  tandem_check(install_${kind} package 900 "${here}/install/install.sh" "${PROJECT_SOURCE_DIR}"
               "${CMAKE_CURRENT_BINARY_DIR}/install" ${kind} ${${kind}_build})
endforeach()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(features_of_scalar "none")
  set(features_of_avx2 "avx2 fma f16c")
  foreach(cpu IN ITEMS "Nehalem scalar" "Haswell avx2 scalar")
    separate_arguments(leaves UNIX_COMMAND "${cpu}")
    list(POP_FRONT leaves model)
    list(GET leaves 0 isa)
    tandem_check(leaf_check_${model} qemu 600 "${here}/qemu.sh" ${model} $<TARGET_FILE:leaf_check> --quick
                 --expect "${features_of_${isa}}")
    tandem_check(load_check_${model} qemu 120 "${here}/qemu.sh" ${model} $<TARGET_FILE:load_check> ${leaves})
  endforeach()
endif()
