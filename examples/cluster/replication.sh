# The entrypoint of the image runs this for a new primary: the standby may copy it.
echo "host replication holdfast all scram-sha-256" >>"$PGDATA/pg_hba.conf"
