# The CUDA backend once more, for a GPU that is emulated on the CPU: its C files and its kernels' own sources, with
# tests/shim in place of CUDA's headers. It needs no toolkit.
include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  message(FATAL_ERROR "The tests of the CUDA kernels need a C++ compiler: apt-get install g++, or -DTANDEM_TESTS=OFF")
endif()
enable_language(CXX)

set(shim_sanitizer)
set(shim_engine_options)
if(TANDEM_SANITIZE MATCHES "address")
  set(shim_sanitizer SHIM_ASAN)
elseif(TANDEM_SANITIZE MATCHES "thread")
  set(shim_sanitizer SHIM_TSAN)
  set(shim_engine_options -fno-sanitize=thread)
endif()

# What is compiled over the shim.
function(shim_objects name)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PRIVATE shim "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(${name} PRIVATE tandem_flags)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
                                           CXX_EXTENSIONS OFF)
  target_compile_definitions(${name} PRIVATE ${shim_sanitizer})
endfunction()

shim_objects(shim_engine shim/fiber.cpp shim/block.cpp shim/warp.cpp)
# They move data between fibers on purpose. As an option of the sources it comes behind -fsanitize.
set_source_files_properties(shim/fiber.cpp shim/block.cpp shim/warp.cpp PROPERTIES
                            COMPILE_OPTIONS "${shim_engine_options}")
shim_objects(shim_runtime shim/queue.cpp shim/runtime.cpp shim/blas.cpp)
# Pragmas: unroll.
set_source_files_properties(${TANDEM_CUDA_KERNELS} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS -Wno-unknown-pragmas)
shim_objects(shim_kernels ${TANDEM_CUDA_KERNELS})
# What runs here was built here; without its fused multiply-add each one would be a call.
include(CheckCCompilerFlag)
check_c_compiler_flag(-march=native HAS_MARCH_NATIVE)
target_compile_options(shim_kernels PRIVATE $<$<BOOL:${HAS_MARCH_NATIVE}>:-march=native>)
shim_objects(shim_backend ${TANDEM_CUDA_SOURCES})

add_library(tandem_cuda_shim MODULE $<TARGET_OBJECTS:shim_engine> $<TARGET_OBJECTS:shim_runtime>
                                    $<TARGET_OBJECTS:shim_kernels> $<TARGET_OBJECTS:shim_backend>)
set_target_properties(tandem_cuda_shim PROPERTIES PREFIX "" SUFFIX ".so" LINKER_LANGUAGE CXX)
target_link_libraries(tandem_cuda_shim PRIVATE ${CMAKE_DL_LIBS} m)
set(shim_plugin "${CMAKE_CURRENT_BINARY_DIR}/tandem_cuda_shim.so")
# It is its own cuBLAS.
target_compile_definitions(shim_backend PRIVATE BLAS_WORKSPACE_MIB=1 "BLAS_LIBRARIES=\"${shim_plugin}\"")

# tandem_kernel_check(NAME SECONDS SOURCE...): a test of kernels, see cuda/kernel_check.h.
function(tandem_kernel_check name seconds)
  shim_objects(${name}_objects cuda/kernel_check.cpp ${ARGN})
  add_executable(${name} $<TARGET_OBJECTS:${name}_objects> $<TARGET_OBJECTS:shim_engine> $<TARGET_OBJECTS:shim_runtime>
                         $<TARGET_OBJECTS:shim_kernels> $<TARGET_OBJECTS:shim_backend>)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE tandem_reference ${CMAKE_DL_LIBS} m)
  tandem_check(${name} shim ${seconds} ${name})
endfunction()

tandem_kernel_check(shim_check 300 shim/shim_check.cpp shim/check_formats.cpp shim/check_threads.cpp
                    shim/check_misuse.cpp shim/check_runtime.cpp shim/check_faults.cpp)

# Faults that a sanitizer must report, and those that the end of the process must.
function(shim_fault fault report)
  tandem_check(shim_reports_${fault} shim 60 "${here}/expect_failure.sh" "${report}" $<TARGET_FILE:shim_check> --fault
               ${fault})
endfunction()

shim_fault(leak "shim: 1 blocks of memory and 1 streams, events and graphs were left over")
if(TANDEM_SANITIZE MATCHES "address")
  shim_fault(shared_overrun "heap-buffer-overflow")
  shim_fault(device_overrun "heap-buffer-overflow")
  shim_fault(use_after_free "heap-use-after-free")
endif()
if(TANDEM_SANITIZE MATCHES "undefined")
  shim_fault(misaligned "misaligned address")
endif()
if(TANDEM_SANITIZE MATCHES "thread")
  shim_fault(no_barrier "ThreadSanitizer: data race")
  shim_fault(shuffle_as_barrier "ThreadSanitizer: data race")
  shim_fault(blocks_collide "ThreadSanitizer: data race")
endif()

# Attention, through the library and the plugin.
tandem_program(attention_check cuda/attention_check.c ops/append_problem.c ops/gqa_inputs.c ops/gqa_problem.c
               ops/problem.c ops/variants.c ../bench/shapes.c)
add_dependencies(attention_check tandem_cuda_shim)
if(TANDEM_SANITIZE STREQUAL "thread")
  set(attention_orders reverse) # races show in any
else()
  set(attention_orders forward reverse 1)
endif()
tandem_check(attention_check shim 1800 ${CMAKE_COMMAND} -E env TEST_DEVICE=cuda "TEST_PLUGIN=${shim_plugin}"
             $<TARGET_FILE:attention_check> ${attention_orders})

tandem_kernel_check(fp8_check 1800 cuda/fp8_check.cpp cuda/fp8_values.cpp cuda/fp8_case.cpp)

# Do the checks bite? scripts/nightly.sh makes all changes of changes.py.
if(NOT TANDEM_SANITIZE)
  set(plugin_objects shim_engine shim_runtime shim_kernels shim_backend)
  # link_list(NAME OBJECTS LIBRARY...): NAME.link lists what NAME is linked from.
  function(link_list name objects)
    list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
    list(APPEND objects ${ARGN})
    file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${name}.link" CONTENT "$<JOIN:${objects},\n>\n")
  endfunction()
  link_list(tandem_cuda_shim "${plugin_objects}")
  link_list(fp8_check "fp8_check_objects;${plugin_objects}" $<TARGET_FILE:tandem_reference>
            $<TARGET_FILE:tandem_internal>)
  tandem_check(cuda_mutants shim 1800 "${python}" "${here}/cuda/mutate.py" --quick "${CMAKE_CXX_COMPILER}"
               "${CMAKE_CURRENT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
endif()
