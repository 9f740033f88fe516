/*
 * Does somebody else on this node serve ClusterIPs? kube-proxy does it by chains named
 * KUBE-SERVICES (iptables, over nftables or legacy), by a table `kube-proxy` (nftables) or by the
 * interface kube-ipvs0 (ipvs); Cilium has interfaces of its own. Only looks, changes nothing, and
 * loads no kernel module: the legacy table is asked for only where it is there already. Any loop.
 */
#ifndef EDGEWAY_IPTABLES_HOST_KUBEPROXY_H
#define EDGEWAY_IPTABLES_HOST_KUBEPROXY_H

/* What was found, in words; *found NULL: nobody. -errno: cannot be told now, for one because the
 * tables are being changed this moment; then *found stays as it is. */
int kubeproxy_cluster_ips(const char **found);

#endif
