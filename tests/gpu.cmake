# The suites of devices and ops, and the pair, once more on a GPU, by the plugin that nvcc built; skipped where there is no
# GPU.
if(NOT TANDEM_HAS_CUDA OR NOT TARGET tandem_tool)
  tandem_skip(gpu "no nvcc, CUDA is off, or there is no tool to look for a GPU")
  set_tests_properties(gpu PROPERTIES LABELS gpu)
  return()
endif()
set(on_gpu "${here}/on_gpu.sh" $<TARGET_FILE:tandem_tool> $<TARGET_FILE:tandem_cuda>)
set(gpu_suites device_graphs device_memory device_streams ops_fp8_matmul ops_gqa_bits ops_gqa_caches ops_gqa_pairwise
               ops_gqa_rotated ops_gqa_shapes ops_gqa_types ops_gqa_values ops_gqa_visible ops_kv_append
               ops_kv_append_many ops_kv_append_steps)
string(JOIN "\n" lines ${gpu_suites})
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/gpu_suites" "${lines}\n") # for scripts/gpu_check.sh
foreach(suite IN LISTS gpu_suites)
  tandem_check(gpu_${suite} gpu 900 ${on_gpu} $<TARGET_FILE:${suite}> --jobs 1)
endforeach()
if(pair_test)
  tandem_check(gpu_model_pair gpu 900 ${on_gpu} ${pair_test} $<TARGET_FILE:tandem_cuda>)
endif()
