#!/usr/bin/env bash
# For the images of scripts/images: a replacement for the script of the same name in the public image of ZooKeeper, with what compose.yml needs.
#
#   zkServer.sh start-foreground    runs a server, configured by the variables ZOO_…, as the public image does
#   zkServer.sh status              succeeds if the server serves
set -euo pipefail

case ${1-} in
    start-foreground)
        mkdir -p /conf /data
        {
            echo "dataDir=/data"
            echo "tickTime=${ZOO_TICK_TIME:-2000}"
            echo "initLimit=${ZOO_INIT_LIMIT:-5}"
            echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
            echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
            echo "admin.enableServer=${ZOO_ADMINSERVER_ENABLED:-true}"
            echo "4lw.commands.whitelist=${ZOO_4LW_COMMANDS_WHITELIST:-srvr}"
            printf '%s\n' ${ZOO_SERVERS:-server.1=localhost:2888:3888;2181} ${ZOO_CFG_EXTRA-}
        } >/conf/zoo.cfg
        echo "${ZOO_MY_ID:-1}" >/data/myid
        lib=$(dirname "$0")/../lib
        exec java -cp "$lib/*" org.apache.zookeeper.server.quorum.QuorumPeerMain /conf/zoo.cfg
        ;;
    status)
        exec 3<>/dev/tcp/127.0.0.1/2181
        printf srvr >&3
        grep Mode: <&3
        ;;
    *)
        echo "zkServer.sh: there is start-foreground, and status" >&2
        exit 64
        ;;
esac
