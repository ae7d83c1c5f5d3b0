# Writes ${out}, C with the text of each file ${folder}/*.${ending}: what the program carries with it. ${header} declares
# the array ${array} of ${type}, {name, text}, which ends with name NULL.
file(GLOB files ${folder}/*.${ending})
list(SORT files)
get_filename_component(room ${folder} NAME)
set(text "/* Made of ${room}/ by cmake/carried.cmake. */\n#include \"${header}\"\n\n"
         "const ${type} ${array}[] = {\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WLE)
  file(READ ${file} bytes)
  string(REPLACE "\\" "\\\\" bytes "${bytes}")
  string(REPLACE "\"" "\\\"" bytes "${bytes}")
  string(REPLACE "\n" "\\n\"\n      \"" bytes "${bytes}")
  string(APPEND text "    { \"${name}\",\n      \"${bytes}\" },\n")
endforeach()
string(APPEND text "    { 0, 0 }\n};\n")
file(WRITE ${out} "${text}")
