# libFuzzer targets, run by scripts/fuzz.sh.
file(GLOB targets CONFIGURE_DEPENDS RELATIVE "${here}/fuzz" fuzz/fuzz_*.c)
add_library(fuzz_input STATIC fuzz/input.c)
target_link_libraries(fuzz_input PRIVATE tandem tandem_flags)
foreach(file IN LISTS targets)
  string(REPLACE ".c" "" target "${file}")
  add_executable(${target} fuzz/${file})
  target_link_libraries(${target} PRIVATE fuzz_input tandem_model tandem tandem_flags -fsanitize=fuzzer)
endforeach()
