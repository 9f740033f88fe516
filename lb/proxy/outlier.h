/*
 * What happens after an endpoint has failed: the failure is recorded. If that ejects the endpoint
 * (targets.h), the ejection is counted, logged with a remedy and sent to the other workers
 * (outlier_share.h), and the endpoint's idle connections are closed. On the worker's loop.
 */
#ifndef EDGEWAY_LB_PROXY_OUTLIER_H
#define EDGEWAY_LB_PROXY_OUTLIER_H

#include "lb/proxy/worker.h"

/* ex: the exchange that met the failure, or NULL. */
void outlier_target(
	struct worker *w, struct target *t, enum target_fault fault, struct exchange *ex);

#endif
