#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/fdpass.h"
#include "base/core/log.h"
#include "src/agent/agent_private.h"
#include "src/agent/rights.h"
#include "src/common/lock.h"

/* --- hand-over to the successor ------------------------------------------------------------- */

static void
agent_freeze(void *arg)
{
	struct agent *a = arg;

	a->stopping = true;
	timer_cancel(a->retry);
	dns_freeze(a->dns);
	buf_init(&a->estate, BUF_UNLIMITED);
	iptables_leave(&a->ipt, &a->estate);
	meta_stop(&a->meta);
	agent_tunnel_hold(a, true);
}

static int
agent_resume(void *arg, struct err *err)
{
	struct agent *a = arg;
	int rc;

	a->stopping = false;
	rc = agent_open_meta(a, err);
	if (rc == 0)
		rc = agent_open_iptables(a, err);
	if (rc < 0)
		return rc;
	iptables_inherit(a->ipt, buf_str(&a->estate));
	buf_fini(&a->estate);
	dns_thaw(a->dns);
	agent_tunnel_hold(a, false);
	agent_connect_hub(a);
	return 0;
}

static int
agent_sockets(void *arg, struct buf *head, int *fds)
{
	struct agent *a = arg;
	bool serves = lb_listening(a->lb) && dns_listening(a->dns);
	size_t workers = serves ? workers_count(a->workers) : 0;
	int n = 0;

	if (2 + 3 * workers > FDPASS_MOST)
		return -E2BIG;
	buf_printf(head, TAKEOVER_HEAD "%s", a->lock >= 0, workers, buf_str(&a->estate));
	fds[n++] = a->network_lock;
	if (a->lock >= 0)
		fds[n++] = a->lock;
	if (serves)
		n += (int)socket_store_list(a->dns, a->lb, a->takes6, fds + n);
	return n;
}

static void
agent_stop_after(void *arg, int status)
{
	struct agent *a = arg;

	/* without these parts nothing on the host can be undone; the next agent does it */
	if (status != 0) {
		a->status = status;
		a->handed_over = true;
	}
	agent_stop(a);
}

static void
agent_ended(void *arg)
{
	const struct agent *a = arg;

	loop_stop(a->loop);
}

void
agent_takeover(void *arg, int fd, const char *query)
{
	struct agent *a = arg;

	a->takes6 = strcmp(query, TAKEOVER_IPV6) == 0;
	handover_asked(a->handover, fd);
}

void
agent_upgrade(void *arg, int fd, const char *query)
{
	const struct agent *a = arg;

	(void)query;
	handover_upgrade(a->handover, fd);
}

/* --- take-over from the predecessor --------------------------------------------------------- */

/* A predecessor that serves does not wait for an address that may never come. */
static int
agent_check_address(const struct agent_options *o, struct err *err)
{
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct addr at = addr_ipv4(ntohl(inet_addr(o->mesh_address)), 0);

	if (o->mesh_address[0] == '\0' || o->own != IPTABLES_OWN_NEVER || fd < 0 ||
		bind(fd, &at.sa, at.len) == 0 || errno != EADDRNOTAVAIL)
		return 0;
	return err_set(err, EADDRNOTAVAIL,
		"mesh.address: no interface of this machine has %s: give it to one (ip address add "
		"%s/32 dev INTERFACE), or set mesh.interface: own, which makes edgeway0 with it",
		o->mesh_address, o->mesh_address);
}

int
agent_take_locks(struct agent *a, struct err *err)
{
	const struct agent_options *o = a->options;
	int rc = 0;

	if (o->takeover && o->admin_socket[0] != '\0')
		rc = takeover_ask(o->admin_socket, "agent", &a->takeover, err);
	if (rc == 0 && a->takeover != NULL) {
		takeover_locks(a->takeover, &a->lock, &a->network_lock);
		if (takeover_workers(a->takeover) > 0)
			rc = agent_check_address(o, err);
		if (rc == 0 && (rc = lock_inherit("agent", o->data_dir, &a->lock, err)) == 0)
			rights_reduce(o);
		takeover_sockets(a->takeover);
		return rc;
	}
	if (rc == 0)
		rc = lock_take(o->data_dir, &a->lock, err);
	if (rc == 0)
		/* the process that holds it can be found only with all privileges */
		rc = lock_network(&a->network_lock, err);
	if (rc == 0)
		rights_reduce(o); /* the folder exists now, and there are no threads yet */
	return rc;
}

void
agent_leave_to_predecessor(struct agent *a)
{
	a->handed_over = true;
	iptables_undo(a->ipt); /* the predecessor keeps its changes on the host */
	dns_settle(a->dns, false);
	agent_freeze(a);
	/* when this closes, the predecessor continues if it has not yet */
	takeover_free(&a->takeover);
}

static void
agent_predecessor_gone(void *arg, bool ours)
{
	struct agent *a = arg;

	if (ours) {
		if (iptables_inherit(a->ipt, takeover_estate(a->takeover)) < 0)
			log_warn("agent",
				"the agent before this one did not say what is to be put back at "
				"the end: its reserved port and its bridges' hairpin mode stay");
		takeover_free(&a->takeover);
		dns_settle(a->dns, true);
		agent_note_estate(a);
		log_info("agent", "has taken over");
		service_state_again(a->announce);
		socket_store_put(a->sockets, a->dns, a->lb); /* we are the main process now */
		agent_health_ports_look(a);
		agent_admin_open(a);
		if (agent_waits_for_bridge(a))
			/* the changes on the host are ours now, and are wrong without the bridge */
			agent_address(a, 0);
		return;
	}
	log_error("agent", "came too late, the agent before goes on: it waits %d s",
		HANDOVER_MS / 1000);
	a->status = 1;
	agent_leave_to_predecessor(a);
	agent_stop(a);
}

void
agent_follow(struct agent *a)
{
	if (a->takeover != NULL)
		takeover_follow(a->takeover, a->loop, agent_predecessor_gone, a);
	handover_new(&a->handover,
		&(struct handover_config){
			.loop = a->loop,
			.who = "agent",
			.starter = a->starter,
			.program = a->argv[0],
			.freeze = agent_freeze,
			.sockets = agent_sockets,
			.resume = agent_resume,
			.give = agent_give,
			.stop = agent_stop_after,
			.end = agent_ended,
			.arg = a,
		});
}

void
agent_served(struct agent *a)
{
	if (a->takeover != NULL)
		takeover_serving(a->takeover);
}

/* If the predecessor does not serve either, nothing is lost by taking over. */
void
agent_tried(struct agent *a)
{
	if (a->takeover != NULL && takeover_workers(a->takeover) == 0)
		agent_served(a);
}

/* --- after a killed agent ------------------------------------------------------------------- */

#define ESTATE_KEY "host.estate"
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* Kernel state is lost at a reboot: the line is valid for one boot of the machine. */
void
agent_add_boot(struct buf *to)
{
	auto_free char *boot = NULL;

	if (file_read(BOOT_ID, 128, &boot, NULL) == 0)
		buf_add(to, boot, strcspn(boot, "\n"));
	buf_adds(to, " ");
}

void
agent_find_estate(struct agent *a)
{
	auto_free char *kept = NULL;
	auto_buf struct buf boot;
	size_t len = 0;

	buf_init(&boot, BUF_UNLIMITED);
	agent_add_boot(&boot);
	if (a->takeover != NULL || meta_keep_get(a->meta, ESTATE_KEY, &kept, &len) != 0 ||
		kept == NULL || strncmp(kept, buf_str(&boot), buf_len(&boot)) != 0)
		return;
	if (iptables_inherit(a->ipt, kept + buf_len(&boot)) == 0)
		log_info("agent",
			"an agent before this one was killed: what it had changed on the host is "
			"this one's to put back");
}

void
agent_note_estate(struct agent *a)
{
	auto_buf struct buf now;

	buf_init(&now, BUF_UNLIMITED);
	if (a->takeover != NULL || a->meta == NULL || a->ipt == NULL)
		return;
	agent_add_boot(&now);
	iptables_estate(a->ipt, &now);
	if (a->noted != NULL && strcmp(a->noted, buf_str(&now)) == 0)
		return;
	free(a->noted);
	a->noted = xstrdup(buf_str(&now));
	if (meta_keep_put(a->meta, ESTATE_KEY, a->noted, buf_len(&now)) < 0)
		log_debug("agent", "a restart after a crash will not know what is to be put back");
}

void
agent_forget_estate(struct agent *a)
{
	if (a->meta != NULL)
		(void)meta_keep_del(a->meta, ESTATE_KEY);
	free(take_ptr(&a->noted));
}
