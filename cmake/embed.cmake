# embed_web_files(target folder…): puts the files of folders into the target, the first served at
# /, others below web/ by their own name, as the table that gateway/front/web_files.h declares, each also compressed by gzip if that is smaller by a tenth.
# A changed, new or removed file configures and builds again.

set(web_mimes
    html text/html
    js text/javascript
    css text/css
    txt text/plain
    svg image/svg+xml
    png image/png
    ico image/x-icon
    json application/json
    map application/json
    woff2 font/woff2)

find_program(HOLDFAST_GZIP gzip)

# Sets <result> to the path of file's gzip in the build, and <result>_size to its size; to "" and 0
# if compression is not worthwhile.
function(compress file name result)
    set(packed ${PROJECT_BINARY_DIR}/web/${name}.gz)
    set(${result} "" PARENT_SCOPE)
    set(${result}_size 0 PARENT_SCOPE)
    if(NOT HOLDFAST_GZIP)
        return()
    endif()
    get_filename_component(place ${packed} DIRECTORY)
    file(MAKE_DIRECTORY ${place})
    execute_process(COMMAND ${HOLDFAST_GZIP} -9nc ${file} OUTPUT_FILE ${packed}
        COMMAND_ERROR_IS_FATAL ANY)
    file(SIZE ${file} size)
    file(SIZE ${packed} packed_size)
    math(EXPR gain "${size} * 9 / 10 - ${packed_size}")
    if(gain GREATER 0)
        set(${result} ${packed} PARENT_SCOPE)
        set(${result}_size ${packed_size} PARENT_SCOPE)
    endif()
endfunction()

function(embed_web_files target folder)
    set(root ${PROJECT_SOURCE_DIR}/${folder})
    set(places "")
    foreach(one ${folder} ${ARGN})
        set(top ${PROJECT_SOURCE_DIR}/${one})
        file(GLOB_RECURSE paths CONFIGURE_DEPENDS RELATIVE ${top} ${top}/*)
        list(FILTER paths EXCLUDE REGEX "(^|/)(\\.|node_modules/)|\\.md$|\\.test\\.")
        list(TRANSFORM paths PREPEND ${top}/)
        list(APPEND places ${paths})
    endforeach()

    set(n 0)
    set(externs "")
    set(incbins "")
    set(rows "")
    set(files "")
    foreach(file ${places})
        string(REPLACE "${root}/" "" name ${file})
        string(REPLACE "${PROJECT_SOURCE_DIR}/web/" "" name ${name})
        string(REGEX MATCH "[^.]*$" extension ${name})
        list(FIND web_mimes "${extension}" at)
        if(at EQUAL -1)
            message(FATAL_ERROR "${folder}/${name}: cmake/embed.cmake does not know this type")
        endif()
        math(EXPR at "${at} + 1")
        list(GET web_mimes ${at} mime)
        if(mime MATCHES "^text/")
            string(APPEND mime "; charset=utf-8")
        endif()
        file(SIZE ${file} size)
        file(SHA256 ${file} hash)
        string(SUBSTRING ${hash} 0 16 hash)

        string(APPEND externs "extern const unsigned char web_file_${n}[];\n")
        string(APPEND incbins "    \"web_file_${n}: .incbin \\\"${file}\\\"\\n\"\n")
        set(gzip_label NULL)
        compress(${file} ${name} gzip)
        if(gzip)
            set(gzip_label web_file_${n}_gzip)
            string(APPEND externs "extern const unsigned char ${gzip_label}[];\n")
            string(APPEND incbins "    \"${gzip_label}: .incbin \\\"${gzip}\\\"\\n\"\n")
        endif()
        # Files in assets/ have a hash in their names: see web/chat/vite.config.ts.
        set(is_immutable false)
        if(name MATCHES "^assets/")
            set(is_immutable true)
        endif()
        string(APPEND rows
            "    {\"/${name}\", \"${mime}\", {web_file_${n}, ${size}}, "
            "{${gzip_label}, ${gzip_size}}, \"${hash}\", ${is_immutable}},\n")
        list(APPEND files ${file})
        math(EXPR n "${n} + 1")
    endforeach()

    set(generated ${PROJECT_BINARY_DIR}/web_files.c)
    file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT [[
/* Made by cmake/embed.cmake. */
#include "gateway/front/web_files.h"

@externs@
__asm__(".pushsection .rodata\n"
@incbins@    ".popsection\n");

const size_t n_web_files = @n@;
const struct web_file web_files[] = {
@rows@    {0},
};
]])
    target_sources(${target} PRIVATE ${generated})
    set_source_files_properties(${generated} PROPERTIES OBJECT_DEPENDS "${files}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
endfunction()
