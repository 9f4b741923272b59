#pragma once

namespace strand::server {

// Debian builds Abseil, on which gRPC stands, with a search for deadlocks in every lock that is
// taken. It costs a program that talks gRPC about a tenth of its time; this switches it off, for
// the whole process. So it is for programs, and not for libraries.
void use_quick_locks();

}  // namespace strand::server
