# Writes OUTPUT, a C++ file with the SQL of the PostgreSQL store, which lies in FOLDER: FIRST (a list
# of files), and each file of OTHERS (a list of names) as a function of its name. Literals must not
# be too long, so each file is one of its own.
set(text "#include \"store/postgres/sql.h\"\n\n#include <string>\n\nnamespace strand::postgres::sql {\n\n")
function(embed name)
  set(parts "")
  foreach(file ${ARGN})
    file(READ "${file}" sql)
    string(APPEND parts "  text += R\"strand(${sql})strand\";\n")
  endforeach()
  set(text "${text}std::string ${name}() {\n  std::string text;\n${parts}  return text;\n}\n\n" PARENT_SCOPE)
endfunction()
embed(first ${FIRST})
foreach(name ${OTHERS})
  embed(${name} "${FOLDER}/${name}.sql")
endforeach()
file(WRITE "${OUTPUT}" "${text}}  // namespace strand::postgres::sql\n")
