/* What another replica tells of its nodes: read whole and in pieces it means the same, and leaves a
 * roster that can be asked. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "hub/port/peer_proto.h"
#include "hub/port/presence.h"
#include "hub/port/route.h"
#include "hub/replicas/tunnel_directory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
check(const struct peer_said *said)
{
	bool has_node = said->word >= PEER_SAYS_HOLDS && said->word <= PEER_SAYS_JOINED;

	if (said->word == PEER_SAYS_HUB)
		assert(peer_proto_id_ok(said->id) && peer_proto_name_ok(said->name));
	if (has_node)
		assert(node_name_ok(said->node));
	if (said->word >= PEER_SAYS_DECLARES && said->word <= PEER_SAYS_FORGETS)
		assert(node_name_ok(said->node));
	if (said->word == PEER_SAYS_REACH)
		assert(strlen(said->entry) > 0 && strlen(said->entry) <= REACHABLE_NETS_ENTRY_MAX);
	if (said->word == PEER_SAYS_HOLDS)
		assert(said->epoch >= 1 && said->epoch <= PEER_EPOCH_MAX);
}

/* What it says is told on to others, who must be able to read it. */
static void
note(struct presence *p, const struct peer_said *said)
{
	struct presence_row row = {.node = said->node,
		.address = said->address,
		.version = said->version,
		.words = said->words,
		.since_ms = said->since_ms,
		.connected = said->word == PEER_SAYS_THERE};
	struct peer_said again = {0};
	auto_buf struct buf line;
	size_t used;

	buf_init(&line, BUF_UNLIMITED);
	if (said->word != PEER_SAYS_THERE && said->word != PEER_SAYS_AWAY)
		return;
	assert(node_name_ok(said->node));
	presence_heard(p, p, "hub-b", &row, said->since_ms % 2 == 0);
	assert(presence_find(p, said->node, &row));
	peer_proto_presence(&line, &row);
	assert(buf_len(&line) <= PEER_LINE_MAX);
	assert(peer_proto_read(buf_at(&line), buf_len(&line), &used, &again) == 1);
	assert(used == buf_len(&line) && strcmp(again.node, row.node) == 0);
	assert(again.since_ms == row.since_ms);
}

static void
claim(struct tunnel_directory_peer *p, const struct peer_said *said)
{
	if (said->word == PEER_SAYS_HOLDS)
		assert(tunnel_directory_claim(p, said->node, said->epoch, 1) == 0);
	else if (said->word == PEER_SAYS_GONE)
		assert(tunnel_directory_claim(p, said->node, 0, 1) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct tunnel_directory *r = tunnel_directory_new();
	struct tunnel_directory_peer *p = tunnel_directory_join(r, &r, "id");
	struct presence *presence = presence_new();
	const char *at = (const char *)data;
	struct peer_said said = {0}, part = {0};
	size_t used, other;
	int rc;

	while ((rc = peer_proto_read(at, len, &used, &said)) > 0) {
		assert(used > 0 && used <= len && at[used - 1] == '\n');
		check(&said);
		claim(p, &said);
		note(presence, &said);
		for (size_t n = 0; n < used; n++)
			assert(peer_proto_read(at, n, &other, &part) == 0);
		assert(peer_proto_read(at, used, &other, &part) == 1 && part.word == said.word);
		at += used;
		len -= used;
	}
	assert(rc == 0 || (rc == -EPROTO && said.why != NULL));
	presence_lost(presence, presence, "lost", 2);
	presence_free(&presence);
	tunnel_directory_leave(&p, 2, false);
	tunnel_directory_free(&r);
	return 0;
}
