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
# What runs here was built here; without its fused multiply-add each one would be a call.
include(CheckCCompilerFlag)
check_c_compiler_flag(-march=native HAS_MARCH_NATIVE)
target_compile_options(shim_kernels PRIVATE $<$<BOOL:${HAS_MARCH_NATIVE}>:-march=native>)
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
target_compile_definitions(shim_backend PRIVATE BLAS_WORKSPACE_MIB=1 "BLAS_LIBRARIES=\"${shim_plugin}\"")
