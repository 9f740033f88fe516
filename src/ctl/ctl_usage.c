#include "src/ctl/ctl_usage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char ctl_usage[] =
	"Usage: edgewayctl [--socket PATH] [--node NODE] [-o FORMAT] [--watch[=TIME]] COMMAND\n"
	"\n"
	"Find out what is wrong\n"
	"  status                    one screen: is it ready, how is each part, what is wrong\n"
	"  doctor                    what this node or hub can get wrong, with the remedy; also "
	"when\n"
	"                            the daemon is down\n"
	"  events [PART]             what happened lately: the last lines of the log, of one part "
	"or all\n"
	"  bundle [FILE]             all of this in one archive without secrets, for a bug report\n"
	"\n"
	"Follow one name or one request\n"
	"  resolve NAME              ask the agent's DNS, and say what the answer means (agent)\n"
	"  trace URL                 which address, rule and endpoint a real request meets, and "
	"why:\n"
	"                            http://, tcp://, udp:// or grpc://NAME[:PORT] (agent)\n"
	"  access check FROM TO      may FROM call TO, and which rule says so\n"
	"  tap [NS/NAME]             requests as they go, of one service or all, until interrupted "
	"(agent)\n"
	"\n"
	"Look at a node\n"
	"  services [NS/NAME]        services with their addresses and ports (agent)\n"
	"  endpoints [NS/NAME]       where requests go (agent)\n"
	"  nodeports                 what is called from outside, where, and why not (agent)\n"
	"  health [NS/NAME]          how the endpoints in use are, as each worker sees them "
	"(agent)\n"
	"  top                       requests, errors and bytes by service, now (agent)\n"
	"  upstreams                 who is asked for other names, and who answers (agent)\n"
	"  streams                   every stream of the tunnels: target, age, bytes, windows, "
	"what waits\n"
	"\n"
	"Look at the hub\n"
	"  node list                 nodes that joined, which are connected, their certificates "
	"(hub)\n"
	"  tunnels                   tunnels of nodes: streams, bytes, round trips (hub)\n"
	"  flows                     flows of UDP maps: who, whereto, datagrams, drops (hub)\n"
	"  peers                     other replicas: state, nodes, streams, round trips (hub); "
	"sessions\n"
	"                            with other nodes (agent)\n"
	"\n"
	"Let nodes and hubs in, or keep them out\n"
	"  token create [--node NODE] [--uses N] [--ttl TIME]\n"
	"                            a token for one join, or N, or unlimited; alone on the last "
	"line (hub)\n"
	"  token list                tokens that have not ended (hub)\n"
	"  token revoke ID           end a token now (hub)\n"
	"  node revoke NODE          refuse the certificates of a node and cut its connection "
	"(hub)\n"
	"  node forget NODE          the same, and its name is free for a new one (hub)\n"
	"  ca list                   nodes that have not got the CAs in use (hub)\n"
	"  ca use [--force]          try again to use the CA of the Secret; --force: whatever "
	"nodes\n"
	"                            that loses (hub)\n"
	"  hub list                  this hub's certificate, those of others, and what is revoked "
	"(hub)\n"
	"  hub revoke NAME|SERIAL    have all nodes and hubs refuse a certificate of a hub (hub)\n"
	"\n"
	"Change a daemon that runs\n"
	"  log list                  how much each part of the daemon says\n"
	"  log level LEVEL [--part PART]\n"
	"                            error, warn, info or debug, until SIGHUP or a restart\n"
	"  log access MODE           the access log: off, errors or all (agent)\n"
	"  upgrade                   start the installed program and hand over to it\n"
	"\n"
	"For programs\n"
	"  state                     everything, as JSON\n"
	"  metrics                   Prometheus text\n"
	"  alive                     does the daemon answer? For probes of containers\n"
	"\n"
	"Options\n"
	"  --socket PATH             admin socket of the daemon; else /run/edgeway/agent.sock or, "
	"where\n"
	"                            there is none, /run/edgeway/hub.sock\n"
	"  --node NODE               at a hub: ask the agent of this node, through its tunnel\n"
	"  -o, --output FORMAT       table (for people), json or yaml\n"
	"  -w, --watch[=TIME]        again and again, every 2s or so often, until interrupted\n"
	"  --version                 say the version\n"
	"  -h, --help                this\n"
	"\n"
	"TIME is a number of seconds, or 90s, 30m, 1h, 7d.\n";

int
ctl_read_seconds(const char *text, unsigned min, unsigned max, unsigned *seconds, struct err *err)
{
	static const struct {
		const char *unit;
		unsigned long seconds;
	} units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (strcmp(end, units[i].unit) != 0)
			continue;
		if (text[0] < '0' || text[0] > '9' || errno != 0 || n > max / units[i].seconds ||
			n * units[i].seconds < min)
			break;
		*seconds = (unsigned)(n * units[i].seconds);
		return 0;
	}
	return err_set(err, EINVAL,
		"a time from %us to %ud expected, such as 90s, 30m, 1h or 7d, not %.40s", min,
		max / 86400, text);
}
