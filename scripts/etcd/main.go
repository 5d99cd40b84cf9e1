// The etcd server, built from its Go module: `scripts/setup` builds it, and keeps it between runs.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
