# The CUDA backend once more, for a GPU that is emulated on the CPU: its C files and its kernels' own sources, with
# tests/shim in place of CUDA's headers. It needs no toolkit.
include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  message(FATAL_ERROR "The tests of the CUDA kernels need a C++ compiler: apt-get install g++, or -DTANDEM_TESTS=OFF")
endif()
enable_language(CXX)

add_library(shim_engine OBJECT shim/fiber.cpp shim/block.cpp shim/warp.cpp)
add_library(shim_runtime OBJECT shim/queue.cpp shim/runtime.cpp shim/blas.cpp)
add_library(shim_kernels OBJECT ${TANDEM_CUDA_KERNELS})
add_library(shim_backend OBJECT ${TANDEM_CUDA_SOURCES})
set(shim_parts shim_engine shim_runtime shim_kernels shim_backend)
foreach(part IN LISTS shim_parts)
  target_include_directories(${part} PRIVATE shim "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(${part} PRIVATE tandem_flags)
  set_target_properties(${part} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
                                           CXX_EXTENSIONS OFF)
  target_compile_definitions(${part} PRIVATE $<$<BOOL:$<FILTER:${TANDEM_SANITIZE},INCLUDE,address>>:SHIM_ASAN>
                                             $<$<STREQUAL:${TANDEM_SANITIZE},thread>:SHIM_TSAN>)
endforeach()
set_source_files_properties(${TANDEM_CUDA_KERNELS} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS -Wno-unknown-pragmas) # unroll
# They move data between fibers on purpose.
target_compile_options(shim_engine PRIVATE $<$<STREQUAL:${TANDEM_SANITIZE},thread>:-fno-sanitize=thread>)

add_library(tandem_cuda_shim MODULE)
foreach(part IN LISTS shim_parts)
  target_sources(tandem_cuda_shim PRIVATE $<TARGET_OBJECTS:${part}>)
endforeach()
set_target_properties(tandem_cuda_shim PROPERTIES PREFIX "" SUFFIX ".so" LINKER_LANGUAGE CXX)
target_link_libraries(tandem_cuda_shim PRIVATE ${CMAKE_DL_LIBS} m)
set(shim_plugin "${CMAKE_CURRENT_BINARY_DIR}/tandem_cuda_shim.so")
# It is its own cuBLAS.
target_compile_definitions(shim_backend PRIVATE "BLAS_LIBRARIES=\"${shim_plugin}\"")

# The kernels by their launchers, in several orders of threads and blocks: a missing barrier changes an output.
add_executable(fp8_check cuda/fp8_check.cpp cuda/fp8_case.cpp)
foreach(part IN LISTS shim_parts)
  target_sources(fp8_check PRIVATE $<TARGET_OBJECTS:${part}>)
endforeach()
target_include_directories(fp8_check PRIVATE shim "${PROJECT_SOURCE_DIR}")
target_link_libraries(fp8_check PRIVATE tandem_reference tandem_flags m)
set_target_properties(fp8_check PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
if(TANDEM_SANITIZE)
  set(orders 7)
else()
  set(orders forward reverse 7)
endif()
foreach(order IN LISTS orders)
  tandem_check(fp8_check_${order} cuda 1800 fp8_check)
  set_tests_properties(fp8_check_${order} PROPERTIES ENVIRONMENT SHIM_ORDER=${order})
endforeach()

# Do they bite? The other changes of mutate.py are made by scripts/nightly.sh.
if(NOT TANDEM_SANITIZE)
  set(objects $<TARGET_OBJECTS:fp8_check> $<TARGET_FILE:tandem_reference> $<TARGET_FILE:tandem_internal>)
  foreach(part IN LISTS shim_parts)
    list(APPEND objects $<TARGET_OBJECTS:${part}>)
  endforeach()
  file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/fp8_check.link" CONTENT "$<JOIN:${objects},\n>\n")
  tandem_check(fp8_mutants cuda 1800 "${python}" "${here}/cuda/mutate.py" --quick "${CMAKE_CXX_COMPILER}"
               "${CMAKE_CURRENT_BINARY_DIR}/fp8_check.link" "${PROJECT_SOURCE_DIR}")
endif()
