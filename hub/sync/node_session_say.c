#include "hub/sync/node_session_private.h"

#include <string.h>

#include "base/core/log.h"
#include "model/bundle.h"
#include "model/json.h"
#include "model/mesh.h"

void
node_session_say_as(struct node_session *s, const struct saying *say, const char *id)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	if (s->ended)
		return;
	envelope_say(&b, say, id);
	memcpy(outbox_begin(&s->outbox, buf_len(&b)), buf_at(&b), buf_len(&b));
	outbox_end(&s->outbox, buf_len(&b));
}

void
node_session_say(struct node_session *s, enum operation op, const char *resource,
	const char *parent, struct buf *content)
{
	const struct saying say = {
		.source = "edgeway-hub",
		.operation = op,
		.resource = resource,
		.parent = parent,
		.content = buf_str(content),
		.content_len = buf_len(content),
	};
	char id[FANOUT_ID_LEN + 1];

	envelope_new_id(id);
	node_session_say_as(s, &say, id);
}

void
node_session_say_hello(struct node_session *s)
{
	auto_buf struct buf c;

	buf_init(&c, BUF_UNLIMITED);
	buf_printf(&c, "{\"hub\":\"" EDGEWAY_VERSION "\",\"protocol\":%d,\"node\":", MESH_PROTOCOL);
	json_add_text(&c, s->node);
	buf_adds(&c, ",\"site\":");
	json_add_text(&c, s->site);
	buf_adds(&c, ",\"zone\":");
	json_add_text(&c, s->zone);
	buf_adds(&c, ",\"ca\":");
	json_add_text(&c, s->config.ca_hash != NULL ? s->config.ca_hash : "");
	buf_adds(&c, ",\"clusterDomain\":");
	json_add_text(&c, s->config.cluster_domain);
	buf_adds(&c, ",\"addresses\":[");
	for (size_t i = 0; i < s->config.n_addresses; i++) {
		buf_adds(&c, i > 0 ? "," : "");
		json_add_text(&c, s->config.addresses[i]);
	}
	buf_adds(&c, "],\"pods\":true,\"bundles\":\"" BUNDLE_KIND "\",\"rendezvous\":true");
	if (s->config.crl != NULL && s->config.crl[0] != '\0') {
		buf_adds(&c, ",\"crl\":");
		json_add_text(&c, s->config.crl);
	}
	if (s->config.revoked != NULL)
		buf_printf(&c, ",\"revoked\":%s", s->config.revoked);
	buf_adds(&c, "}");
	node_session_say(s, OP_INSERT, "node/hello", "", &c);
}

void
node_session_say_crl(struct node_session *s, const char *crl, const char *revoked)
{
	auto_buf struct buf c;

	buf_init(&c, BUF_UNLIMITED);
	if (!s->config.takes_crl)
		return;
	buf_printf(&c, "{\"revoked\":%s", revoked);
	if (crl[0] != '\0') {
		buf_adds(&c, ",\"crl\":");
		json_add_text(&c, crl);
	}
	buf_adds(&c, "}");
	node_session_say(s, OP_INSERT, "node/crl", "", &c);
	outbox_send(&s->outbox);
}

void
node_session_leave_gate(struct node_session *s)
{
	if (s->config.gate != NULL)
		sync_gate_end(s->config.gate, &s->gate_ticket);
}

void
node_session_say_synced(struct node_session *s, const char *parent)
{
	auto_buf struct buf c;

	buf_init(&c, BUF_UNLIMITED);
	buf_adds(&c, "{\"synced\":true}");
	node_session_say(s, OP_RESPONSE, "digest/services", parent, &c);
	s->synced = true;
	node_session_leave_gate(s);
}

void
node_session_complain(
	struct node_session *s, const char *parent, const char *resource, const char *why)
{
	auto_buf struct buf c = {0};

	s->config.stats->bad_messages++;
	log_limited(LOG_LEVEL_WARN, 10, "hub", "bad message node=%s reason=\"%s\"", s->node, why);
	if (ws_queued(s->conn) > 4 * NODE_SESSION_QUEUE_BYTES) {
		node_session_end(s, 1008, "too many bad messages");
		return;
	}
	buf_init(&c, BUF_UNLIMITED);
	json_add_text(&c, why);
	node_session_say(s, OP_ERROR, resource, parent, &c);
}
