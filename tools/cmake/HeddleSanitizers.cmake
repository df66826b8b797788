# One switch for every target, compiler and runtime alike.
if(HEDDLE_SANITIZER STREQUAL "address")
  set(_flags -fsanitize=address,undefined -fno-sanitize=vptr
             -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
elseif(HEDDLE_SANITIZER STREQUAL "thread")
  set(_flags -fsanitize=thread -fno-omit-frame-pointer)
elseif(HEDDLE_SANITIZER)
  message(FATAL_ERROR "HEDDLE_SANITIZER: expected address or thread, got "
                      "'${HEDDLE_SANITIZER}'")
endif()
if(_flags)
  add_compile_options(${_flags} -g)
  add_link_options(${_flags})
endif()
