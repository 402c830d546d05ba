#include "cli/run.h"

int main(int argc, char** argv) { return nibble::cli::run(argc, argv); }
