/* Who stands for a node, by the index, is who does when each neighbour is asked: random Nodes,
 * sites, declarations and changes. */
#include "tests/unit/model/kube_kit.h"

#include <stdio.h>
#include <string.h>

#include "hub/routing/neighbours.h"

enum { NODES = 40, ROUNDS = 60, CHANGES = 30, ENTRIES = 4 };

static const char *const labels[] = {"", "edgeway.io/site: a", "edgeway.io/site: b",
	"edgeway.io/site: a, node-role.kubernetes.io/control-plane: ''"};
static struct cluster *cluster;
static struct neighbours *neighbours;
static uint64_t seed = 1;

static unsigned
any(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % n;
}

static bool
tunnelled(void *arg, const char *node)
{
	(void)arg;
	(void)node;
	return false;
}

static unsigned
streams(void *arg, const char *node)
{
	(void)arg;
	(void)node;
	return 0;
}

static void
add_address(struct buf *out)
{
	if (any(5) == 0)
		buf_printf(out, "fd00:%x::%x", any(2), any(8));
	else
		buf_printf(out, "192.168.%u.%u", any(2), any(32));
}

/* Some are gone this time, some have no address. */
static void
say_nodes(bool sites)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	for (int i = 0; i < NODES; i++) {
		if (any(10) == 0)
			continue;
		buf_printf(&b,
			"---\napiVersion: v1\nkind: Node\nmetadata: {name: n%d, labels: {%s}}\n"
			"status: {addresses: [",
			i, sites ? labels[any(ARRAY_LEN(labels))] : "");
		if (any(10) > 0) {
			buf_adds(&b, "{type: InternalIP, address: '");
			add_address(&b);
			buf_adds(&b, "'}");
		}
		buf_adds(&b, "]}\n");
	}
	kit_say(cluster, "nodes", buf_str(&b));
}

static void
add_entry(struct buf *out)
{
	if (any(3) == 0) {
		buf_printf(out, "n%u", any(NODES + 2));
	} else {
		size_t before = buf_len(out);

		add_address(out);
		if (memchr(buf_str(out) + before, ':', buf_len(out) - before) != NULL)
			buf_printf(out, "/%u", 32 + any(97));
		else
			buf_printf(out, "/%u", 10 + any(23));
	}
}

static const char *
name_of(unsigned i)
{
	static char name[16];

	snprintf(name, sizeof name, "n%u", i);
	return name;
}

/* A node says something here or to one of two replicas, or takes it back. */
static void
change(void)
{
	static const int replicas[2];
	const void *from = &replicas[any(2)];
	const char *node = name_of(any(NODES));
	unsigned what = any(8);
	auto_buf struct buf text, answer;

	buf_init(&text, BUF_UNLIMITED);
	buf_init(&answer, BUF_UNLIMITED);
	if (what == 0) {
		neighbours_forget(neighbours, node);
	} else if (what == 1) {
		neighbours_unheard(neighbours, from, any(20) == 0 ? NULL : node);
	} else if (what < 4) {
		neighbours_heard(neighbours, from, node, NULL);
		for (unsigned i = any(ENTRIES); i > 0; i--) {
			buf_consume(&text, buf_len(&text));
			add_entry(&text);
			neighbours_heard(neighbours, from, node, buf_str(&text));
		}
	} else {
		for (unsigned i = any(ENTRIES) + 1; i > 0; i--) {
			add_entry(&text);
			buf_adds(&text, "\n");
		}
		neighbours_declare(neighbours, node, buf_str(&text), buf_len(&text), &answer);
	}
}

/* Each is asked, whatever its site. */
static bool
somebody_declares(const char *node)
{
	const struct neighbours_ask ask = {.node = node};
	const char *site;

	for (unsigned i = 0; i < NODES; i++) {
		char via[16];

		snprintf(via, sizeof via, "n%u", i);
		if (neighbours_declares(neighbours, via, &ask, &site))
			return true;
	}
	return false;
}

static void
as_when_each_is_asked(void **state)
{
	unsigned yes = 0, no = 0;

	(void)state;
	cluster = cluster_new();
	neighbours = neighbours_new(&(struct neighbours_config){
		.cluster = cluster, .tunnelled = tunnelled, .streams = streams});
	for (int round = 0; round < ROUNDS; round++) {
		say_nodes(round % 4 != 0);
		for (int i = 0; i < CHANGES; i++) {
			change();
			for (unsigned k = 0; k < NODES + 2; k++) {
				char node[16];
				bool stands;

				snprintf(node, sizeof node, "n%u", k);
				stands = neighbours_stand_for(neighbours, node);
				if (stands != somebody_declares(node))
					fail_msg("round %d, change %d: %s %d", round, i, node,
						stands);
				yes += stands;
				no += !stands;
			}
		}
	}
	assert_true(yes > 1000 && no > 1000);
	neighbours_free(&neighbours);
	cluster_free(&cluster);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_when_each_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
