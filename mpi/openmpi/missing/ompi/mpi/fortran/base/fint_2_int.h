/* Debian's libopenmpi-dev lacks this header, which ompi/op/op.h includes; nothing of it is needed here. */
