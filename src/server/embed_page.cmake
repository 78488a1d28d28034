# SPDX-License-Identifier: Apache-2.0
# Writes OUT, a source that holds the bytes of IN.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUT} "#include \"server/page.h\"\nnamespace inkstone::server {\nnamespace {\n"
  "constexpr unsigned char kPage[] = {${bytes}};\n}\n"
  "std::string_view page_html() { return {reinterpret_cast<const char*>(kPage), sizeof(kPage)}; }\n}\n")
