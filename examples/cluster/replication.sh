# Of the image's entrypoint, when the primary is new: the standby may copy it.
echo "host replication holdfast all scram-sha-256" >>"$PGDATA/pg_hba.conf"
