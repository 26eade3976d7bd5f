# The program that checks the leaves.
tandem_program(leaf_check leaf/leaf_check.c leaf/check_dots.c leaf/check_error.c leaf/check_fp8.c leaf/check_rows.c
                          leaf/check_score.c leaf/check_softmax.c leaf/check_widen.c)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  return()
endif()

# The AVX-512 and AMX leaves once more, in portable C, for machines that have neither.
find_path(SIMDE_INCLUDE_DIR simde/x86/avx512.h)
if(NOT SIMDE_INCLUDE_DIR)
  message(FATAL_ERROR "The leaf checks need SIMDe: apt-get install libsimde-dev, or -DTANDEM_TESTS=OFF")
endif()
set(emulated avx512 avx512vnni avx512vnni_2 avx512vnni_1 amx)
list(TRANSFORM emulated REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/cpu/leaves/leaf_\\1.c" OUTPUT_VARIABLE emulated_sources)
add_library(leaf_emulated OBJECT ${emulated_sources})
target_compile_definitions(leaf_emulated PRIVATE TANDEM_EMULATE)
target_include_directories(leaf_emulated PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
target_include_directories(leaf_emulated SYSTEM PRIVATE "${SIMDE_INCLUDE_DIR}")
target_link_libraries(leaf_emulated PRIVATE tandem_flags)
target_compile_options(leaf_emulated PRIVATE "SHELL:-include ${here}/leaf/emulate_avx512.h"
                                             "SHELL:-include ${here}/leaf/emulate_amx.h" -Wno-psabi
                                             -O1) # more optimisation takes minutes
target_sources(leaf_check PRIVATE $<TARGET_OBJECTS:leaf_emulated>)
