/* resolv.conf, whoever wrote it: ours gives the original back byte for byte, and never lists
 * ourselves. */
#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#include "dns/resolvconf/resolvkeep.h"
#include "dns/resolvconf/resolvtext.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { OWN = 0xac110001, UPSTREAMS = 8 };

static size_t
upstreams(const char *text, size_t len, struct addr to[UPSTREAMS])
{
	size_t n = resolvtext_upstreams(text, len, OWN, to, 0, UPSTREAMS);

	assert(n <= UPSTREAMS);
	for (size_t i = 0; i < n; i++) {
		assert(to[i].sa.sa_family == AF_INET || to[i].sa.sa_family == AF_INET6);
		assert(to[i].sa.sa_family == AF_INET6 || ntohl(to[i].in.sin_addr.s_addr) != OWN);
	}
	return n;
}

static void
as_text(const char *text, size_t len)
{
	struct addr before[UPSTREAMS], after[UPSTREAMS];
	size_t ours_len, back_len, n = upstreams(text, len, before);
	auto_free char *ours = resolvtext_build(text, len, "cluster.local", OWN, &ours_len);
	auto_free char *back = NULL;

	assert(resolvtext_is_ours(ours, ours_len));
	assert(upstreams(ours, ours_len, after) == n);
	back = resolvtext_strip(ours, ours_len, &back_len);
	if (resolvtext_is_ours(text, len))
		return;
	assert(back_len == len && memcmp(back, text, len) == 0);
}

/* Somebody else's edit of our text: what is left has no line of ours. */
static void
as_ours(const char *text, size_t len)
{
	size_t n;
	auto_free char *back = resolvtext_strip(text, len, &n);

	assert(n <= len + 1);
	assert(resolvtext_is_ours(text, len) || (n == len && memcmp(back, text, len) == 0));
}

static void
as_record(const char *data, size_t len)
{
	struct resolv_original o, again;
	auto_free char *packed = NULL;
	size_t n;

	if (resolv_original_unpack(&o, data, len) < 0)
		return;
	packed = resolv_original_pack(&o, &n);
	assert(resolv_original_unpack(&again, packed, n) == 0);
	assert(again.len == o.len && memcmp(again.text, o.text, o.len) == 0);
	resolv_original_fini(&again);
	resolv_original_fini(&o);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len > RESOLVTEXT_MAX)
		return 0;
	as_text((const char *)data, len);
	as_ours((const char *)data, len);
	as_record((const char *)data, len);
	return 0;
}
