# Plain executables, judged by their exit code: under qemu-user and ThreadSanitizer Criterion does not work, and a leak
# fails none of its cases.
function(tandem_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE tandem_reference tandem_flags m)
endfunction()

add_executable(load_check load_check.c)
target_link_libraries(load_check PRIVATE tandem tandem_flags m)
tandem_check(load_check load 120 load_check)

foreach(check IN ITEMS race leak fork fpstate spin env)
  tandem_program(${check}_check threads/${check}_check.c threads/load.c)
  tandem_check(${check}_check threads 300 ${check}_check)
endforeach()
# What glibc keeps for a thread's next allocation would count as used.
set_tests_properties(leak_check PROPERTIES ENVIRONMENT "GLIBC_TUNABLES=glibc.malloc.tcache_count=0")
set_tests_properties(spin_check PROPERTIES RUN_SERIAL ON) # it measures processor time
