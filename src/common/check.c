#include "src/common/check.h"

#include <stdio.h>

#include "base/core/buf.h"

int
check_print(const struct opt_program *p, const void *values)
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	opt_dump(p, values, &out);
	fputs(buf_str(&out), stdout);
	puts("# the configuration is fine");
	return 0;
}
