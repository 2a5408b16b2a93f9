"""The test bed: switches in network namespaces, hosts as User-Mode Linux guests with the real rdma_rxe."""
