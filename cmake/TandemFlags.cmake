# The compiler flags of everything that is built here, as the interface target tandem_flags.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

# Minus infinity and NaN mean something here, and a fused multiply-add is written as one: no fast-math, no contraction.
set(flags -Wall -Wextra -Wpedantic -ffp-contract=off -fvisibility=hidden)
set(TANDEM_LINK_FLAGS -Wl,--no-undefined)
if(TANDEM_WERROR)
  list(APPEND flags -Werror)
endif()

# C11 alone hides POSIX and mmap's flags. A file that needs GNU functions says so in its first line.
set(definitions _DEFAULT_SOURCE)

if(TANDEM_SANITIZE)
  list(APPEND definitions TANDEM_SANITIZE)
  list(APPEND flags -fsanitize=${TANDEM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  # clang's sanitizer runtime is in the executable, not in the library.
  set(TANDEM_LINK_FLAGS "")
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
endif()
if(TANDEM_COVERAGE)
  list(APPEND flags --coverage)
  add_link_options(--coverage)
endif()

add_library(tandem_flags INTERFACE)
target_compile_options(tandem_flags INTERFACE ${flags})
target_compile_definitions(tandem_flags INTERFACE ${definitions})
