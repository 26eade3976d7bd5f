# Under a sanitizer a deliberate fault of each kind must be reported.
add_executable(sanitizer_bites sanitizer_bites.c)
target_link_libraries(sanitizer_bites PRIVATE tandem_flags Threads::Threads)

function(tandem_bite fault report)
  tandem_check(sanitizer_reports_${fault} sanitizer 60 "${CMAKE_CURRENT_SOURCE_DIR}/expect_failure.sh" "${report}"
               $<TARGET_FILE:sanitizer_bites> ${fault})
endfunction()

if(TANDEM_SANITIZE MATCHES "address")
  tandem_bite(leak "LeakSanitizer: detected memory leaks")
  tandem_bite(overflow "heap-buffer-overflow")
endif()
if(TANDEM_SANITIZE MATCHES "undefined")
  tandem_bite(signed "signed integer overflow")
endif()
if(TANDEM_SANITIZE MATCHES "thread")
  tandem_bite(race "ThreadSanitizer: data race")
endif()
