/*
 * Capsules of a peer: whole, and cut as the first byte says, they are the same datagrams; none is
 * longer than UDP has them, and memory is held for no more than one. The same bytes as a path: what
 * can be read is what would be written.
 */
#include <assert.h>
#include <string.h>

#include "base/core/hash.h"
#include "tunnel/h2/udp_path.h"
#include "tunnel/udp/capsule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
	uint64_t hash;
	size_t n;
	bool bad;
};

static struct sum
read_all(const uint8_t *data, size_t size, size_t piece)
{
	struct capsule_reader r = {0};
	struct capsule_datagram got;
	struct sum sum = {0};

	for (size_t at = 0; at < size && !sum.bad; at += piece) {
		const void *from = data + at;
		size_t n = MIN(piece, size - at);
		enum capsule_result result;

		while ((result = capsule_read(&r, &from, &n, &got)) == CAPSULE_DATAGRAM) {
			assert(got.len <= DATAGRAM_MAX);
			sum.hash = hash64(got.len > 0 ? got.data : "", got.len, sum.hash + 1);
			sum.n++;
		}
		assert(buf_len(&r.body) <= DATAGRAM_MAX);
		sum.bad = result == CAPSULE_BAD;
		assert(sum.bad || n == 0);
	}
	capsule_fini(&r);
	return sum;
}

static void
check_path(const uint8_t *data, size_t size)
{
	auto_free char *path = xstrndup((const char *)data, size);
	char authority[262], again[262], built[UDP_PATH_MAX];

	if (!udp_path_parse(path, authority, sizeof authority))
		return;
	assert(udp_path_build(authority, built, sizeof built));
	assert(udp_path_parse(built, again, sizeof again));
	assert(strcmp(authority, again) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sum whole, cut;

	if (size == 0)
		return 0;
	check_path(data, size);
	whole = read_all(data + 1, size - 1, size);
	cut = read_all(data + 1, size - 1, (size_t)data[0] + 1);
	assert(whole.n == cut.n && whole.hash == cut.hash && whole.bad == cut.bad);
	return 0;
}
