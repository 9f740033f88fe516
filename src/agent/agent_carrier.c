#include <string.h>

#include "base/core/log.h"
#include "base/http/ws_tunnels.h"
#include "base/tls/pki.h"
#include "model/mesh.h"
#include "src/agent/agent_private.h"

enum { CA_MOST = 1 << 20 };

/* The CAs of hub.carrierCA, on the heap; NULL: the system's. */
static int
read_ca(const char *path, char **pem, struct err *err)
{
	struct ssl_ctx_st *ctx = NULL;
	int rc;

	if (path[0] == '\0')
		return 0;
	rc = file_read(path, CA_MOST, pem, NULL);
	if (rc < 0)
		return err_set(err, rc, "hub.carrierCA: cannot read %s: %s", path, strerror(-rc));
	rc = pki_client_ctx(*pem, NULL, NULL, &ctx, err);
	pki_ctx_free(&ctx);
	return rc < 0 ? err_wrap(err, rc, "hub.carrierCA %s", path) : 0;
}

int
agent_carriers_open(struct agent *a, struct err *err)
{
	const struct agent_options *o = a->options;
	auto_free char *path = NULL, *ca = NULL;
	int rc;

	if (o->tunnel_carrier != CARRIER_WEBSOCKET)
		return 0;
	if (o->hub_protocol == PROTOCOL_CLOUDHUB) {
		log_warn("agent",
			"tunnel.carrier websocket does nothing with hub.protocol cloudhub: a "
			"CloudHub speaks websockets anyway, and knows no carrier");
		return 0;
	}
	rc = read_ca(o->hub_carrier_ca, &ca, err);
	if (rc < 0)
		return rc;
	path = xasprintf("/%s/%s/carrier", MESH_PROJECT, o->node);
	a->carriers = ws_tunnels_new(&(struct ws_tunnels_config){
		.loop = a->loop,
		.path = path,
		.ca_pem = ca,
		.mark = MESH_MARK,
	});
	return 0;
}

void
agent_carriers_state(const struct agent *a, struct buf *out)
{
	if (a->carriers == NULL) {
		buf_adds(out, "null");
		return;
	}
	buf_adds(out, "{");
	ws_tunnels_state(a->carriers, out);
	buf_adds(out, "}");
}
