/*
 * Detects whether another program on this node serves ClusterIPs. kube-proxy shows by chains named
 * KUBE-SERVICES (iptables, over nftables or legacy), a table `kube-proxy` (nftables) or the
 * interface kube-ipvs0 (ipvs); Cilium has interfaces of its own. Read-only, and loads no kernel
 * module: the legacy table is read only where it already exists. Any loop.
 */
#ifndef EDGEWAY_IPTABLES_HOST_KUBEPROXY_H
#define EDGEWAY_IPTABLES_HOST_KUBEPROXY_H

/* *found: a description, or NULL: none. -errno: unknown at the moment, for example because the
 * tables are just being changed; then *found is left unchanged. */
int kubeproxy_cluster_ips(const char **found);

#endif
