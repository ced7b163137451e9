# A first day with a table of one's own: from time stamps to a service that survives kill -9. Run in an empty folder.

# A load of each of six hosts, every minute of five hours.
awk 'BEGIN {
    print "at,host,load"
    for (minute = 0; minute < 300; minute++)
        for (host = 0; host < 6; host++)
            printf "2024-03-01T%02d:%02d:00Z,h%d,%d\n", 8 + minute / 60, minute % 60, host, 1 + (minute * 7 + host * 31) % 97
}' > load.csv

# Import by time, train, compare; the model behind a guard.
laau import table load.csv --series host --time at --values load --horizon 10 --split 60,30,30 --split-by time --gap 10 -o episodes
laau train --train episodes/train.parquet --validation episodes/validation.parquet --phases 5:0.01 --quiet -o model.safetensors
laau compare --train episodes/train.parquet --validation episodes/validation.parquet --test episodes/test.parquet \
    --phases 5:0.01 --policies opt,equal,dgd,mw,ce,laau --quiet --format csv -o report > compared.csv
laau evaluate --test episodes/test.parquet --model model.safetensors --guard report/mw.policy --quiet

# The winner's file has the figures of the comparison, beside the model.
winner=$(grep -v '^policy,\|^opt,' compared.csv | sort -t , -k 2 -g -r | head -n 1 | cut -d , -f 1)
echo "the winner is $winner"
laau evaluate --test episodes/test.parquet --policy-file "report/$winner.policy" --model trained=model.safetensors \
    --quiet --format csv > evaluated.csv
grep "^$winner," compared.csv | cut -d , -f 1-9 > expected
grep "^$winner," evaluated.csv | cut -d , -f 1-9 | diff expected -

# An episode in service, without an interruption.
for weight in 0.31 0.62 0.05 0.44 0.97 0.18 0.73 0.26 0.51 0.88; do echo "{\"context\":[$weight]}"; done > contexts.jsonl
decide="laau decide --policy-file report/$winner.policy --budget 125 --horizon 10"
$decide < contexts.jsonl > whole.jsonl

# The same in service with a journal: killed after four decisions, begun again by the same command.
mkfifo pipe
$decide --journal day.jsonl < pipe > first.jsonl &
service=$!
exec 3> pipe
head -n 4 contexts.jsonl >&3
waited=0
until [ "$(wc -l < first.jsonl)" -eq 4 ]; do
    waited=$((waited + 1))
    [ "$waited" -le 600 ]
    sleep 0.1
done
kill -9 "$service"
wait "$service" || true
exec 3>&-
tail -n +5 contexts.jsonl | $decide --journal day.jsonl > second.jsonl
grep -q '^{"resumed_at":4}$' second.jsonl
grep -v resumed_at second.jsonl | sed 's/,"replayed":true//' | diff whole.jsonl -
