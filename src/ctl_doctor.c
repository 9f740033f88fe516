#include "src/ctl_doctor.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/ctl_doctor_machine.h"
#include "src/ctl_doctor_parts.h"

/* Where dataDir is unless the configuration says something else. */
#define AGENT_FOLDER "/var/lib/edgeway"
#define HUB_FOLDER "/var/lib/edgeway-hub"

enum { CERTIFICATE_LEAST_S = 7 * 86400, REPAIRED_LATELY_MS = 600 * 1000 };

/* --- what the agent says ---------------------------------------------------------- */

static void
check_hub(struct findings *f, const struct tree_node *meta)
{
	const char *error = ctl_text(meta, "error");

	if (ctl_text(meta, "cloudhub_problem")[0] != '\0')
		findings_add(f, "hub", VERDICT_BAD,
			"edgeway-hub in the cluster, and hub.protocol: edgeway here", "%s",
			ctl_text(meta, "cloudhub_problem"));
	else if (ctl_true(meta, "connected"))
		findings_add(f, "hub", ctl_true(meta, "synced") ? VERDICT_OK : VERDICT_NOTE,
			"its list is still on the way; look again", "connected to %s",
			ctl_text(meta, "url"));
	else
		findings_add(f, "hub", VERDICT_BAD,
			"the node serves what it knows; check the name, the way (curl -k to "
			"hub.url), the proxy and the hub's log",
			"%s", error[0] != '\0' ? error : "not connected");
}

static void
check_certificate(struct findings *f, const struct tree_node *meta)
{
	const char *error = ctl_text(meta, "certificate_error"),
		   *until = ctl_text(meta, "certificate_expires");
	double left = ctl_number(meta, "certificate_not_after") - (double)time(NULL);
	static const char remedy[] = "it is renewed while the hub is reached; after its end join "
				     "anew with `edgewayctl token create "
				     "--node NODE` at the hub";

	if (error[0] != '\0')
		findings_add(f, "certificate", VERDICT_BAD, remedy, "%s", error);
	else if (until[0] != '\0')
		findings_add(f, "certificate",
			left < 0                             ? VERDICT_BAD
				: left < CERTIFICATE_LEAST_S ? VERDICT_NOTE
							     : VERDICT_OK,
			remedy, "until %s", until);
}

static void
check_database(struct findings *f, const struct tree_node *meta)
{
	const char *file = ctl_text(meta, "database.file"), *slash = strrchr(file, '/');
	bool ok = strcmp(ctl_text(meta, "database.state"), "ok") == 0;

	findings_add(f, "database", ok ? VERDICT_OK : VERDICT_BAD,
		"free or mend that disk: it is written within seconds then; until then what comes "
		"is lost with a restart",
		"%s: %s", file, ok ? "ok" : ctl_text(meta, "database.trouble"));
	if (slash != NULL) {
		auto_free char *folder = xstrndup(file, (size_t)MAX(slash - file, 1));

		doctor_disk(f, folder);
	}
}

static void
check_upstreams(struct findings *f, const struct tree_node *dns)
{
	const struct tree_node *list = tree_get(dns, "forwarding");

	if (ctl_count(list) == 0)
		findings_add(f, "upstreams", VERDICT_BAD,
			"write a nameserver into resolv.conf, or set dns.upstreams",
			"nobody is asked for names outside the cluster");
	tree_each(list, u)
	{
		const char *state = ctl_text(u, "state");

		if (strcmp(state, "loop") == 0)
			findings_add(f, "upstreams", VERDICT_BAD,
				"it forwards to this node's DNS: name its own upstreams there",
				"%s sends our queries back to us", ctl_text(u, "address"));
		else
			findings_add(f, "upstreams",
				strcmp(state, "dead") == 0 ? VERDICT_BAD : VERDICT_OK,
				"ask it by hand (dig @ADDRESS .), and take it out of resolv.conf "
				"where it is gone",
				"%s: %s", ctl_text(u, "address"), state);
	}
}

static void
check_resolv_conf(struct findings *f, const struct tree_node *dns)
{
	const char *state = ctl_text(dns, "resolvConf.state"),
		   *trouble = ctl_text(dns, "resolvConf.trouble");

	if (ctl_true(dns, "resolvConfWatch.left"))
		findings_add(f, "resolv.conf", VERDICT_BAD,
			"names of the cluster are not found through it until that program stops "
			"(a DHCP client, NetworkManager, resolvconf): let it spare the file, or "
			"set dns.manageResolvConf: false and docker's dns",
			"left alone: another program keeps changing it, our lines were put back "
			"%s times",
			ctl_text(dns, "resolvConfWatch.mended"));
	else if (strncmp(trouble, "left alone, ", 12) == 0)
		findings_add(f, "resolv.conf", VERDICT_BAD,
			"make room on the disks of dataDir and of the file, or mount them for "
			"writing: "
			"it is written within seconds then; until then short names of the cluster "
			"are not found through it",
			"%s", trouble);
	else
		findings_add(f, "resolv.conf",
			trouble[0] != '\0'                   ? VERDICT_BAD
				: strcmp(state, "ours") == 0 ? VERDICT_OK
							     : VERDICT_NOTE,
			"pods that docker starts take their nameservers from there; see "
			"dns.resolvConf",
			"%s%s%s", state, trouble[0] != '\0' ? ": " : "", trouble);
}

/* Puts back what others change, and who. */
static void
add_repairs(struct buf *out, const struct tree_node *of)
{
	buf_printf(out, "put back %s times", ctl_text(of, "repairs"));
	if (ctl_text(of, "repaired_after")[0] == '\0')
		return;
	buf_adds(out, ", last ");
	ctl_add_duration(out, ctl_number(of, "repaired_ms_ago") / 1000);
	buf_printf(out, " ago after %s", ctl_text(of, "repaired_after"));
}

static void
check_rules(struct findings *f, const struct tree_node *ipt)
{
	const char *first = ctl_text(ipt, "translated_first_by");
	bool installed = ctl_true(ipt, "installed");
	auto_buf struct buf repairs;

	buf_init(&repairs, BUF_UNLIMITED);
	add_repairs(&repairs, ipt);
	if (!installed && !ctl_true(ipt, "up"))
		findings_add(f, "rules", VERDICT_BAD, "it comes with the bridge, see below",
			"table %s waits for %s", ctl_text(ipt, "table"),
			ctl_text(ipt, "interface"));
	else if (!installed)
		findings_add(f, "rules", VERDICT_BAD,
			"the agent's log tells what the kernel said; see below whether it has "
			"nf_tables with nat; the agent needs CAP_NET_ADMIN",
			"table %s is not installed", ctl_text(ipt, "table"));
	else
		findings_add(f, "rules",
			ctl_text(ipt, "repaired_after")[0] != '\0' &&
					ctl_number(ipt, "repaired_ms_ago") < REPAIRED_LATELY_MS
				? VERDICT_NOTE
				: VERDICT_OK,
			"it clears the whole ruleset: let it replace its own tables alone (no "
			"`flush ruleset`)",
			"table %s is installed, %s", ctl_text(ipt, "table"), buf_str(&repairs));
	if (ctl_text(ipt, "warning")[0] != '\0')
		findings_add(f, "rules", VERDICT_NOTE,
			"load the module, or keep other users from the node", "%s",
			ctl_text(ipt, "warning"));
	tree_each(tree_get(ipt, "obstacles"), o)
		findings_add(f, "rules", VERDICT_BAD, "as it says", "%s", tree_text(o, ""));
	if (first[0] != '\0')
		findings_add(f, "rules", VERDICT_NOTE,
			"what they take of mesh.subnet and of port 53 does not come to us: see "
			"`nft list chain ip TABLE CHAIN`, and move them behind dstnat - 5",
			"translate addresses before ours do: %s", first);
}

static void
check_listener(struct findings *f, const struct tree_node *lb)
{
	if (ctl_text(lb, "trouble")[0] != '\0')
		findings_add(
			f, "listener", VERDICT_NOTE, "as it says", "%s", ctl_text(lb, "trouble"));
}

static void
check_endpoints(struct findings *f, const struct tree_node *top)
{
	unsigned ejected = 0;

	if (ctl_number(top, "meta.addresses.services_without") > 0)
		findings_add(f, "addresses", VERDICT_BAD, "give mesh.subnet a larger range",
			"%s services have no address left",
			ctl_text(top, "meta.addresses.services_without"));
	tree_each(tree_path(top, "lb.endpoints"), g)
	{
		tree_each(tree_get(g, "endpoints"), e) ejected +=
			strcmp(ctl_text(e, "state"), "ejected") == 0;
	}
	if (ctl_number(top, "refused") > 0)
		findings_add(f, "endpoints", VERDICT_NOTE,
			"edgewayctl endpoints tells which and why: somebody leads this node to "
			"addresses that no Service should have; where it is meant, name them in "
			"lb.allow",
			"%s are refused because of what their address is",
			ctl_text(top, "refused"));
	findings_add(f, "endpoints", ejected > 0 ? VERDICT_NOTE : VERDICT_OK,
		"edgewayctl health tells which and why", "%u are ejected", ejected);
}

void
doctor_traces(struct findings *f, const struct tree_node *tracing)
{
	const char *error = ctl_text(tracing, "error");

	if (tree_get(tracing, "endpoint") == NULL)
		return;
	findings_add(f, "traces", error[0] != '\0' ? VERDICT_NOTE : VERDICT_OK,
		"spans wait, and are dropped once the queue is full: does the collector run there, "
		"and is tracing.endpoint its OTLP/HTTP port (usually 4318) and path (/v1/traces)?",
		"%s%s%s, %s spans dropped", ctl_text(tracing, "endpoint"),
		error[0] != '\0' ? ": " : "", error, ctl_text(tracing, "dropped"));
}

void
doctor_admin(struct findings *f, const struct tree_node *admin)
{
	const char *trouble = ctl_text(admin, "trouble");

	if (trouble[0] != '\0')
		findings_add(f, "admin port", VERDICT_BAD,
			"the daemon serves without it and tries it every second; `ss -antp` as "
			"root "
			"names the program",
			"%s", trouble);
}

void
doctor_seccomp(struct findings *f, const struct tree_node *s)
{
	const char *error = ctl_text(s, "error");

	if (error[0] != '\0')
		findings_add(f, "seccomp", VERDICT_NOTE,
			"the daemon runs without a filter of system calls: allow seccomp(2) where "
			"it runs, or set seccomp: off",
			"%s", error);
	else if (ctl_number(s, "refused") > 0)
		findings_add(f, "seccomp", VERDICT_NOTE,
			"the log names each call; when a function is lost by it set seccomp: log "
			"and report the call, else look for who is inside",
			"refused %s system calls, at last %s", ctl_text(s, "refused"),
			ctl_text(s, "last"));
	else if (ctl_number(s, "calls") > 0)
		findings_add(f, "seccomp", VERDICT_OK, NULL, "%s system calls are allowed",
			ctl_text(s, "calls"));
}

static void
check_agent(struct findings *f, const struct tree_node *top)
{
	const struct tree_node *meta = tree_get(top, "meta");
	const char *error = ctl_text(top, "error");

	if (ctl_true(top, "ready") && ctl_text(top, "degraded")[0] != '\0')
		findings_add(f, "agent", VERDICT_NOTE,
			"pods are served; what follows tells what is left undone until the disk "
			"has "
			"room",
			"ready, degraded: a part does without its disk");
	else
		findings_add(f, "agent", ctl_true(top, "ready") ? VERDICT_OK : VERDICT_BAD,
			"what follows tells why", "%s%s%s",
			ctl_true(top, "ready") ? "ready" : "not ready",
			error[0] != '\0' ? ": " : "", error);
	check_hub(f, meta);
	check_certificate(f, meta);
	check_database(f, meta);
	check_upstreams(f, tree_get(top, "dns"));
	check_resolv_conf(f, tree_get(top, "dns"));
	check_rules(f, tree_get(top, "iptables"));
	check_listener(f, tree_get(top, "lb"));
	check_endpoints(f, top);
	doctor_traces(f, tree_get(top, "tracing"));
	doctor_seccomp(f, tree_get(top, "seccomp"));
	doctor_admin(f, tree_get(top, "admin"));
}

/* A full disk may be why nobody answers. */
static void
check_silent_disks(struct findings *f)
{
	static const char *const folders[] = {AGENT_FOLDER, HUB_FOLDER};

	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		if (access(folders[i], F_OK) == 0)
			doctor_disk(f, folders[i]);
	}
}

static void
check_silence(struct findings *f, const struct doctor_ask *ask)
{
	if (ask->error == EACCES || ask->error == EPERM)
		findings_add(f, "daemon", VERDICT_NOTE,
			"run the doctor as root or as the daemon's user: what the daemon itself "
			"knows is missing here",
			"%s", ask->silent);
	else if (ask->error == EAGAIN || ask->error == ETIMEDOUT)
		findings_add(f, "daemon", VERDICT_BAD,
			"it is there and hangs, or is stopped (State: in /proc/PID/status, kill "
			"-CONT): keep its log and a backtrace (gdb -p PID), then restart it",
			"%s", ask->silent);
	else
		findings_add(f, "daemon", VERDICT_BAD,
			"systemctl status edgeway-agent edgeway-hub, and their journal, tell why "
			"it ended",
			"%s", ask->silent);
}

int
ctl_doctor(const struct tree_node *answer, const struct doctor_ask *ask, enum ctl_format format)
{
	bool is_hub = tree_get(answer, "hub") != NULL, bad;
	struct findings f = {0};

	if (answer == NULL)
		check_silent_disks(&f);
	if (answer == NULL)
		check_silence(&f, ask);
	if (is_hub) {
		doctor_hub(&f, answer);
	} else {
		if (answer != NULL)
			check_agent(&f, answer);
		doctor_machine(&f, answer, ask->socket);
	}
	doctor_clock(&f, tree_get(answer, "meta"));
	findings_print(&f, format);
	bad = findings_bad(&f);
	findings_fini(&f);
	return bad ? 1 : 0;
}
