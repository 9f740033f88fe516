#include "src/agent/restore.h"

#include <errno.h>
#include <unistd.h>

#include "base/core/log.h"
#include "dns/dns.h"
#include "iptables/iptables.h"
#include "meta/meta.h"
#include "model/mesh.h"
#include "src/common/lock.h"

enum { LOCK_TRIES = 20, LOCK_PAUSE_US = 100 * 1000 };

static void
on_snapshot(void *arg, const struct snapshot *snapshot)
{
	(void)arg;
	(void)snapshot;
}

static void
on_address(void *arg, uint32_t address)
{
	(void)arg;
	(void)address;
}

static int
open_meta(struct meta **meta, const struct agent_options *o, struct loop *loop, struct err *err)
{
	static const char *const none[] = {NULL};
	const struct meta_config config = {
		.loop = loop,
		.data_dir = o->data_dir,
		.node = o->node,
		.subnet = o->mesh_subnet.address,
		.mask = o->mesh_subnet.mask,
		.listen_port = (uint16_t)o->mesh_listen_port,
		.hub_urls = none,
		.ca = "",
		.cert = "",
		.key = "",
		.token = "",
		.token_file = "",
		.node_id = "",
		.cluster_domain = o->mesh_cluster_domain,
		.proxy = "",
		.heartbeat_ms = o->hub_heartbeat,
		.mark = MESH_MARK,
	};

	return meta_open(meta, &config, on_snapshot, NULL, err);
}

/* Without the database, the marks in the file show which lines are ours. */
static int
restore_resolvconf(const struct agent_options *o, struct loop *loop, struct err *err)
{
	struct dns_keep keep = {0};
	struct meta *meta = NULL;
	struct err why = {0};
	int rc;

	if (open_meta(&meta, o, loop, &why) < 0)
		log_warn("agent", "without the database only marked lines can be undone: %s",
			why.text);
	else
		keep = (struct dns_keep){meta, meta_keep_get, meta_keep_put, meta_keep_del};
	rc = dns_resolvconf_recover(loop, o->dns_resolv_conf, &keep, err);
	if (meta != NULL)
		meta_stop(&meta);
	return rc < 0 ? rc : 0;
}

static int
restore_kernel(const struct agent_options *o, struct loop *loop, struct err *err)
{
	const struct iptables_config config = {
		.loop = loop,
		.interface = o->bridge,
		.own = o->own,
		.subnet = o->mesh_subnet.address,
		.mask = o->mesh_subnet.mask,
		.subnet6 = o->subnet6,
		.port = (uint16_t)o->mesh_listen_port,
		.dns_port = (uint16_t)o->dns_port,
		.mark = MESH_MARK,
	};
	struct iptables *ipt = NULL;
	int rc = iptables_open(&ipt, &config, on_address, NULL, err);

	multipath_withdraw();
	if (rc == 0)
		rc = iptables_remove(ipt, err);
	iptables_close(&ipt);
	return rc;
}

static int
restore_complain(const struct err *err)
{
	log_error("agent", "cannot restore: %s", err->text);
	return 1;
}

static int
restore_all(const struct agent_options *o)
{
	struct loop *loop = NULL;
	struct err err = {0};
	int status = 0;

	if (loop_new(&loop, &err) < 0)
		return restore_complain(&err);
	if (restore_resolvconf(o, loop, &err) < 0)
		status = restore_complain(&err);
	if (restore_kernel(o, loop, &err) < 0)
		status = restore_complain(&err);
	loop_free(&loop);
	if (status == 0)
		log_info("agent",
			"restored: nothing of an agent is left in resolv.conf, nftables and the "
			"routes");
	return status;
}

/* An agent that was killed holds its lock until the kernel has taken it apart. */
static int
restore_lock(const char *data_dir, int *lock, struct err *err)
{
	int rc = lock_take(data_dir, lock, err);

	for (int i = 0; i < LOCK_TRIES && rc == -EBUSY; i++) {
		usleep(LOCK_PAUSE_US);
		rc = lock_take(data_dir, lock, err);
	}
	return rc;
}

int
restore(const struct agent_options *o)
{
	int lock = -1, network_lock = -1, status;
	struct err err = {0};

	if (restore_lock(o->data_dir, &lock, &err) < 0 || lock_network(&network_lock, &err) < 0)
		status = restore_complain(&err);
	else
		status = restore_all(o);
	if (network_lock >= 0)
		close(network_lock);
	if (lock >= 0)
		close(lock);
	return status;
}
