// SPDX-License-Identifier: Apache-2.0
// app/command_line.h - the words of the command line to a command that runs. The only place that knows the
// option parser.
#pragma once

namespace inkstone::app {

// The whole program: parses, runs the command, reports its error. Gives the exit code: 0 done, 1 the run
// failed, 2 wrong usage or input.
int run(int argc, const char* const* argv);

}  // namespace inkstone::app
