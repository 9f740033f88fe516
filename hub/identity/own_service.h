/*
 * The names and addresses of the hub's own Service, for the hub's certificate: status.loadBalancer,
 * externalIPs, clusterIPs, and its names in the cluster's DNS. The last known names stay in use
 * while the API server is away or the Service is gone: an extra name in a certificate does no harm.
 * On the hub's loop.
 *
 *	own_service_start(&o, &config, err);
 *	names = own_service_names(o);	// again in config.changed
 */
#ifndef EDGEWAY_HUB_IDENTITY_OWN_SERVICE_H
#define EDGEWAY_HUB_IDENTITY_OWN_SERVICE_H

#include "base/core/buf.h"
#include "hub/kube/kube_api.h"
#include "hub/kube/names.h"

struct own_service;

struct own_service_config {
	struct loop *loop;
	struct kube_api *api;
	const char *service; /* namespace/name; copied */
	const char *cluster_domain; /* copied */
	loop_fn *changed;
	void *arg;
};

/* -EINVAL: `service` is not namespace/name. */
int own_service_start(
	struct own_service **o, const struct own_service_config *config, struct err *err);
void own_service_stop(struct own_service **o);
const struct names *own_service_names(const struct own_service *o);
/* {"service","names":[],"problem"} */
void own_service_state(const struct own_service *o, struct buf *out);

#endif
