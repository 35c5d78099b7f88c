# Warnings, hardening and sanitizers, for all targets.

add_compile_definitions(_GNU_SOURCE=)
add_compile_options(
    -Wall -Wextra -Wshadow -Wconversion -Wvla -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes
    -Werror -fno-omit-frame-pointer)

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported()
add_link_options(LINKER:-z,relro LINKER:-z,now)

set(sanitizers "")
if(FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES Clang OR NOT SANITIZE STREQUAL "address")
        message(FATAL_ERROR "FUZZ needs clang (CC=clang) and SANITIZE=address")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(SANITIZE STREQUAL "address")
    set(sanitizers address,undefined)
elseif(SANITIZE STREQUAL "thread")
    set(sanitizers thread)
elseif(SANITIZE)
    message(FATAL_ERROR "SANITIZE is address, thread or empty, not \"${SANITIZE}\"")
endif()

if(sanitizers)
    add_compile_options(-fsanitize=${sanitizers} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${sanitizers})
    find_program(LLD ld.lld) # two hundred programs, each with the sanitizers' runtimes: a quarter of the linker's time
    if(LLD)
        add_link_options(-fuse-ld=lld)
    endif()
else()
    add_compile_options(
        -fstack-protector-strong
        "$<$<NOT:$<CONFIG:Debug>>:SHELL:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>")
endif()
