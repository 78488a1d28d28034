// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include "app/command_line.h"

// Nothing of ours throws; a library that runs out of memory does.
int main(int argc, char** argv) {
  try {
    return inkstone::app::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("inkstone: out of memory\n", stderr);
  } catch (const std::exception&) {
    std::fputs("inkstone: the run failed for a reason that no message describes\n", stderr);
  }
  return 1;
}
