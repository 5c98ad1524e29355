// All messages of the wire (op.h says how they travel).
#pragma once

#include "emu/wire/library.h"
#include "emu/wire/memory.h"
#include "emu/wire/op.h"
#include "emu/wire/stream.h"
