# The plugin that nvcc built.
if(NOT TARGET tandem_cuda)
  tandem_skip(cuda_plugin "no nvcc, or CUDA is off: the plugin is not built")
elseif(TARGET tandem_tool)
  find_file(CUDA_STUB libcuda.so PATHS "${CUDAToolkit_LIBRARY_DIR}/stubs" NO_DEFAULT_PATH)
  tandem_check(cuda_plugin cuda 60 "${python}" "${here}/cuda/plugin.py" $<TARGET_FILE:tandem_tool>
               $<TARGET_FILE:tandem_cuda> $<$<BOOL:${CUDA_STUB}>:${CUDA_STUB}>)
endif()

# What nvcc makes of the kernels, for each architecture the plugin is built for.
if(NOT TARGET tandem_cuda)
  tandem_skip(cuda_ptx "no nvcc, or CUDA is off: kernels are not compiled for a GPU")
else()
  string(REGEX MATCHALL "[0-9]+" architectures "${TANDEM_CUDA_ARCHITECTURES}")
  list(REMOVE_DUPLICATES architectures)
  list(TRANSFORM architectures PREPEND "--arch=")
  tandem_check(cuda_ptx cuda 1800 "${python}" "${here}/cuda/ptx_gate.py" "--nvcc=${CMAKE_CUDA_COMPILER}" ${architectures}
               "${PROJECT_SOURCE_DIR}")
endif()
