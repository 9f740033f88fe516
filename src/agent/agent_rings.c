/* How the workers' small sends reach the kernel: mesh.io. */
#include <errno.h>
#include <string.h>

#include "base/core/log.h"
#include "base/os/send_ring.h"
#include "model/json.h"
#include "src/agent/agent_private.h"

int
agent_rings_open(struct agent *a, struct err *err)
{
	struct err why = {0};
	int rc = 0;

	if (a->options->mesh_io == MESH_IO_EPOLL)
		return 0;
	a->rings = xcalloc(a->n_workers, sizeof *a->rings);
	for (size_t i = 0; i < a->n_workers && rc == 0; i++)
		rc = send_ring_new(&a->rings[i], &why);
	if (rc == 0) {
		log_info("agent", "workers send through io_uring rings=%zu", a->n_workers);
		return 0;
	}
	agent_rings_close(a);
	if (a->options->mesh_io == MESH_IO_URING)
		return err_set(
			err, rc, "mesh.io: uring: %s; allow it, or set mesh.io: auto", why.text);
	snprintf(a->rings_why, sizeof a->rings_why, "%s", why.text);
	log_info("agent", "workers send without io_uring, which costs more CPU: %s (mesh.io)",
		a->rings_why);
	return 0;
}

void
agent_rings_close(struct agent *a)
{
	for (size_t i = 0; a->rings != NULL && i < a->n_workers; i++)
		send_ring_free(&a->rings[i]);
	free(take_ptr(&a->rings));
}

/* The error of the first ring that the kernel has refused; 0: none. */
static int
agent_rings_error(const struct agent *a)
{
	int error = 0;

	for (size_t i = 0; a->rings != NULL && i < a->n_workers && error == 0; i++)
		error = send_ring_error(a->rings[i]);
	return error;
}

void
agent_rings_state(const struct agent *a, struct buf *out)
{
	const int error = agent_rings_error(a);

	buf_printf(out,
		"{\"kind\":\"%s\",\"why\":", a->rings != NULL && error == 0 ? "uring" : "epoll");
	if (error != 0)
		buf_printf(out, "\"the kernel has refused io_uring: %s\"", strerror(-error));
	else
		json_add_text(out, a->rings_why);
	buf_adds(out, "}");
}

void
agent_rings_metrics(const struct agent *a, struct metrics *m)
{
	metric_gauge(m, "edgeway_mesh_io_uring",
		"1 when the workers send through io_uring, 0 when each send is a call.", NULL,
		a->rings != NULL && agent_rings_error(a) == 0);
}
