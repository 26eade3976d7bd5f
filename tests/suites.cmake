# The leaf checks, and the Criterion suites: one executable for each file.
if(TANDEM_SANITIZE)
  tandem_check(leaf_check leaf 1800 leaf_check --quick)
else()
  tandem_check(leaf_check leaf 1800 leaf_check)
endif()

find_package(PkgConfig REQUIRED)
pkg_check_modules(CRITERION IMPORTED_TARGET criterion)
if(NOT CRITERION_FOUND)
  message(FATAL_ERROR "The tests need Criterion: apt-get install libcriterion-dev, or -DTANDEM_TESTS=OFF")
endif()

# tandem_suites(FOLDER HELPERS... SUITES NAME...): FOLDER/test_NAME.c, with what its suites share.
function(tandem_suites folder)
  cmake_parse_arguments(arg "" "" "HELPERS;SUITES" ${ARGN})
  add_library(${folder}_helpers STATIC ${arg_HELPERS})
  target_link_libraries(${folder}_helpers PUBLIC tandem_reference PkgConfig::CRITERION PRIVATE tandem_flags)
  foreach(suite IN LISTS arg_SUITES)
    tandem_program(${folder}_${suite} ${folder}/test_${suite}.c)
    target_link_libraries(${folder}_${suite} PRIVATE ${folder}_helpers)
    # CTest runs the suites side by side.
    tandem_check(${folder}_${suite} ${folder} 900 ${folder}_${suite} --jobs 1)
  endforeach()
endfunction()

tandem_suites(ops
  HELPERS
    ops/append_problem.c ops/fp8_problem.c ops/gqa_inputs.c ops/gqa_problem.c ops/int8_problem.c ops/layer.c ops/pairs.c
    ops/problem.c ops/variants.c ../bench/shapes.c
  SUITES
    convert fp8_matmul gqa_bits gqa_caches gqa_pairwise gqa_rotated gqa_scores gqa_shapes gqa_types gqa_values
    gqa_visible int8_decode kv_append kv_append_many kv_append_steps kv_shift merge_states product)

# Once more on the emulated GPU: those that take about a minute or less there. Under sanitizers attention_check and
# fp8_check stand for them.
if(NOT TANDEM_SANITIZE)
  set(suites fp8_matmul gqa_bits gqa_pairwise gqa_rotated gqa_values kv_append kv_append_many kv_append_steps)
endif()
foreach(suite IN LISTS suites)
  tandem_check(ops_${suite}_shim shim 1800 ops_${suite} --jobs 1)
  set_tests_properties(ops_${suite}_shim PROPERTIES ENVIRONMENT "TEST_DEVICE=cuda;TEST_PLUGIN=${shim_plugin}")
endforeach()

# Once more on a machine that has AVX-512 and AMX, or seems to; not under sanitizers, where that would take hours.
if(TARGET leaf_emulated AND NOT TANDEM_SANITIZE)
  foreach(suite IN ITEMS fp8_matmul gqa_shapes gqa_pairwise int8_decode product)
    tandem_program(ops_${suite}_emulated ops/test_${suite}.c leaf/emulated_rows.c $<TARGET_OBJECTS:leaf_emulated>)
    target_link_libraries(ops_${suite}_emulated PRIVATE ops_helpers)
    tandem_check(ops_${suite}_emulated ops 1800 ops_${suite}_emulated --jobs 1)
  endforeach()
endif()
if(TARGET leaf_emulated)
  tandem_program(tiles_check leaf/tiles_check.c)
  target_link_options(tiles_check PRIVATE -Wl,--wrap=cpu_detect,--wrap=cpu_ask_for_tiles)
  tandem_check(tiles_check leaf 30 tiles_check)
endif()

tandem_suites(api
  HELPERS api/cache_world.c api/counting.c api/world.c
  SUITES allocator bad_input cache cache_input cache_rows explain info log memory open plugin pool streams variables)

# What a GPU has and a CPU lacks, on the emulated one.
set(suites graphs memory streams)
tandem_suites(device HELPERS device/device_world.c device/product.c SUITES ${suites})
foreach(suite IN LISTS suites)
  set_tests_properties(device_${suite} PROPERTIES LABELS shim ENVIRONMENT "TEST_DEVICE=cuda;TEST_PLUGIN=${shim_plugin}")
  add_dependencies(device_${suite} tandem_cuda_shim)
endforeach()

# Plugins for api_plugin to load: one that works, and one for each fault.
set(faults NONE NO_SYMBOL WRONG_ABI REFUSES_ABI WRONG_KIND OPEN_FAILS)
foreach(fault IN LISTS faults)
  string(TOLOWER "fake_${fault}" plugin)
  add_library(${plugin} MODULE plugin/fake_backend.c)
  target_compile_definitions(${plugin} PRIVATE FAKE_FAULT=${fault})
  target_include_directories(${plugin} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(${plugin} PRIVATE tandem_flags)
  set_target_properties(${plugin} PROPERTIES PREFIX "" SUFFIX ".so"
                                             LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/plugin")
  add_dependencies(api_plugin ${plugin})
endforeach()
target_compile_definitions(api_plugin PRIVATE FAKE_BACKENDS="${CMAKE_CURRENT_BINARY_DIR}/plugin")

# The programs, as their users run them.
if(TARGET tandem_tool)
  tandem_check(tool tool 600 "${python}" "${here}/tool/test_tool.py" $<TARGET_FILE:tandem_tool>)
  set_tests_properties(tool PROPERTIES ENVIRONMENT "TEST_PLUGIN=${shim_plugin}")
endif()
if(TARGET tandem-cache)
  tandem_check(example_cache tool 30 tandem-cache)
  tandem_check(example_cache_int8 tool 30 ${CMAKE_COMMAND} -E env TANDEM_ALLOW=int8_decode $<TARGET_FILE:tandem-cache>)
  set_tests_properties(example_cache example_cache_int8 PROPERTIES PASS_REGULAR_EXPRESSION
    "Of 106 tokens, head 0 finds number 42.*Without the last, 105 are left; .* within 0.00[0-9]")
endif()
if(TARGET tandem-cuda)
  tandem_check(example_cuda cuda 30 ${CMAKE_COMMAND} -E env "TANDEM_CUDA_PLUGIN=${shim_plugin}" $<TARGET_FILE:tandem-cuda>)
  set_tests_properties(example_cuda PROPERTIES PASS_REGULAR_EXPRESSION "Row 1 sums to 1.0, row 511 to 511.0")
  tandem_check(example_cuda_absent cuda 30 ${CMAKE_COMMAND} -E env TANDEM_CUDA_PLUGIN=/nonexistent
               "${here}/expect_failure.sh" "the CUDA backend did not load: /nonexistent" $<TARGET_FILE:tandem-cuda>)
endif()
if(TARGET tandem-run)
  execute_process(COMMAND "${python}" -c "import gguf, ml_dtypes, numpy, safetensors" RESULT_VARIABLE missing
                  ERROR_QUIET)
  set(model_test "${python}" "${here}/model/test_model.py" $<TARGET_FILE:tandem-run>)
  if(missing)
    tandem_skip(model_pair "${python} lacks the packages of examples/requirements.txt")
    tandem_skip(model "${python} lacks the packages of examples/requirements.txt")
  elseif(TANDEM_MODEL)
    tandem_check(model model 1200 ${model_test} --model "${TANDEM_MODEL}")
  else()
    tandem_check(model model 900 ${model_test})
    if(NOT TANDEM_SANITIZE) # where it would take too long
      tandem_skip(model_real "TANDEM_MODEL is not set, see scripts/test.sh")
    endif()
  endif()
  if(NOT missing)
    set(pair_test "${python}" "${here}/model/test_pair.py" $<TARGET_FILE:tandem-run>)
    tandem_check(model_pair model 900 ${pair_test} "${shim_plugin}")
  endif()
endif()

# Beside ONNX Runtime, in one process; Python cannot load a library that is built for a sanitizer.
if(BUILD_SHARED_LIBS AND NOT TANDEM_SANITIZE)
  execute_process(COMMAND "${python}" -c "import numpy, onnx, onnxruntime" RESULT_VARIABLE missing ERROR_QUIET)
  if(missing)
    tandem_skip(compat "${python} lacks the packages of tests/compat/requirements.txt")
  else()
    tandem_check(compat compat 900 "${python}" "${here}/compat/test_compat.py" $<TARGET_FILE:tandem>)
  endif()
endif()
