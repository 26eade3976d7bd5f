# For another processor, what needs no Criterion: under the emulator, as each kind of processor with leaves of its own.
set(features_of_neon "neon")
set(features_of_neon_dotprod "neon dotprod")
set(features_of_neon_i8mm "neon dotprod i8mm")
foreach(cpu IN ITEMS "cortex-a72 neon scalar" "cortex-a76 neon_dotprod neon scalar"
                     "max neon_i8mm neon_dotprod neon scalar")
  separate_arguments(leaves UNIX_COMMAND "${cpu}")
  list(POP_FRONT leaves model)
  list(GET leaves 0 isa)
  tandem_check(leaf_check_${model} qemu 600 leaf_check --quick --expect "${features_of_${isa}}")
  tandem_check(load_check_${model} qemu 120 load_check ${leaves})
  tandem_check(example_cache_${model} qemu 60 tandem-cache)
  set_tests_properties(example_cache_${model} PROPERTIES PASS_REGULAR_EXPRESSION "head 0 finds number 42")
  tandem_check(tool_${model} qemu 900 "${python}" "${here}/tool/test_tool.py" ${CMAKE_CROSSCOMPILING_EMULATOR}
               $<TARGET_FILE:tandem_tool>)
  foreach(test IN ITEMS leaf_check load_check example_cache tool)
    set_tests_properties(${test}_${model} PROPERTIES ENVIRONMENT QEMU_CPU=${model})
  endforeach()
endforeach()
