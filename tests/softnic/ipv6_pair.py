"""Two hosts that have IPv6 addresses, too."""

import pair as pairs


class Ipv6Pair(pairs.Pair):
    """GID indices on both: 0 link-local, 1 IPv4, 2 and 3 global of two networks."""

    def _make_network(self, lossy):
        super()._make_network(lossy)
        for number, host in enumerate(("a", "b"), start=1):
            self.allow_ipv6(host)
            pairs.net.run(["ip", "-n", self.namespace(host), "addr", "add", f"2001:db8::{number}/64", "dev", "eth0"])
            pairs.net.run(["ip", "-n", self.namespace(host), "addr", "add", f"2001:db8:1::{number}/64", "dev", "eth0"])

    def allow_ipv6(self, host, device="eth0"):
        """Addresses are there at once, without a second in which the kernel looks for duplicates."""
        settings = [f"net.ipv6.conf.{device}.{name}={value}" for name, value in (("accept_dad", 0), ("disable_ipv6", 0))]
        pairs.net.run(["ip", "netns", "exec", self.namespace(host), "sysctl", "-qw", *settings])
