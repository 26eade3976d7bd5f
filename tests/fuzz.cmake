# libFuzzer targets, run by scripts/fuzz.sh.
file(GLOB targets CONFIGURE_DEPENDS RELATIVE "${here}/fuzz" fuzz/fuzz_*.c)
foreach(file IN LISTS targets)
  string(REPLACE ".c" "" target "${file}")
  add_executable(${target} fuzz/${file})
  target_link_libraries(${target} PRIVATE tandem_model tandem tandem_flags -fsanitize=fuzzer)
endforeach()
