#include "dns/forward/loop_probe.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dns/answer/message.h"

enum { HINFO = 13, DIGITS = 16, SALT_DIGITS = 8 };

#define PREFIX "edgeway-loop-"

void
loop_probe_build(uint8_t query[LOOP_PROBE_QUERY_BYTES], uint64_t mark, uint32_t salt)
{
	static const uint8_t head[DNS_HEADER] = {0, 0, DNS_FLAG_RD >> 8, 0, 0, 1, 0, 0, 0, 0, 0, 1};
	char labels[64];
	size_t at = DNS_HEADER;
	int n = snprintf(labels, sizeof labels, "%c%016llx%c" PREFIX "%08lx", DIGITS,
		(unsigned long long)mark, (int)strlen(PREFIX) + SALT_DIGITS, (unsigned long)salt);

	memcpy(query, head, sizeof head);
	memcpy(query + at, labels, (size_t)n + 1);
	at += (size_t)n + 1;
	dns_put16(query + at, HINFO);
	dns_put16(query + at + 2, DNS_CLASS_IN);
	dns_put_opt(query + at + 4, 0, false);
}

uint64_t
loop_probe_parse(const uint8_t *query, size_t len)
{
	const uint8_t *name = query + DNS_HEADER, *second = name + 1 + DIGITS;
	uint64_t mark = 0;

	if (len < LOOP_PROBE_QUERY_BYTES - DNS_OPT_BYTES || name[0] != DIGITS ||
		second[0] != strlen(PREFIX) + SALT_DIGITS ||
		strncasecmp((const char *)second + 1, PREFIX, strlen(PREFIX)) != 0)
		return 0;
	for (unsigned i = 1; i <= DIGITS; i++) {
		unsigned c = name[i] | 0x20u;
		bool digit = name[i] >= '0' && name[i] <= '9';

		if (!digit && (c < 'a' || c > 'f'))
			return 0;
		mark = mark << 4 | (digit ? c - '0' : c - 'a' + 10u);
	}
	return mark;
}
