// Ctrl-C, SIGTERM and a lost terminal: the first asks the run to stop and write its checkpoint, the second exits at
// once.
#pragma once

namespace headrace {

// Installs the handlers; call once, before threads start.
void catch_interrupts();
// Whether one arrived.
bool interrupted();

}  // namespace headrace
