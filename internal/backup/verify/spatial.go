package verify

import (
	"context"
	"fmt"
	"strings"
)

// Values that are looked for in each index, and what is asked of each table. Whatever overlaps a value is counted by
// the index and by a scan: pg_amcheck knows only B-trees, and a spatial index is what maps are drawn from.
const (
	spatialIndexes = `select format('%I.%I', n.nspname, t.relname) || E'\t' ||
format('%I', a.attname) || E'\t' || i.relname || E'\t' || format('operator(%I.&&)', s.nspname)
from pg_index x join pg_class i on i.oid = x.indexrelid join pg_am m on m.oid = i.relam
join pg_class t on t.oid = x.indrelid join pg_namespace n on n.oid = t.relnamespace
join pg_attribute a on a.attrelid = t.oid and a.attnum = x.indkey[0]
join pg_opclass c on c.oid = x.indclass[0] join pg_amop p on p.amopfamily = c.opcfamily
join pg_operator o on o.oid = p.amopopr join pg_namespace s on s.oid = o.oprnamespace
join pg_proc f on f.oid = o.oprcode join pg_roles r on r.oid = f.proowner
where m.amname in ('gist', 'spgist') and x.indisvalid and x.indnatts = 1 and x.indpred is null and t.relkind = 'r'
and o.oprname = '&&' and o.oprleft = a.atttypid and o.oprright = a.atttypid and r.rolsuper
order by 1`
	samples = 5
)

// compare counts by index and by scan in every database.
func compare(ctx context.Context, request Request) (int, error) {
	databases, err := request.query(ctx, "postgres", "select datname from pg_database where datallowconn order by 1")
	if err != nil {
		return 0, err
	}
	compared := 0
	for _, database := range databases {
		found, err := request.query(ctx, database, spatialIndexes)
		if err != nil {
			return compared, err
		}
		for _, line := range found {
			parts := strings.Split(line, "\t")
			if len(parts) != 4 {
				continue
			}
			if err := compareOne(ctx, request, database, parts[0], parts[1], parts[2], parts[3]); err != nil {
				return compared, err
			}
			compared++
		}
	}
	return compared, nil
}

func compareOne(ctx context.Context, request Request, database string, of ...string) error {
	table, column, index, overlaps := of[0], of[1], of[2], of[3]
	question := fmt.Sprintf(`select string_agg(found::text, ' ' order by number) from (select number,
(select count(*) from %[1]s t where t.%[2]s %[4]s s.value) as found
from (select row_number() over () as number, %[2]s as value from
(select %[2]s from %[1]s where %[2]s is not null order by ctid limit %[3]d) v) s offset 0) c`,
		table, column, samples, overlaps)
	var counts [2]string
	for way, settings := range []string{
		"set enable_seqscan = off", "set enable_indexscan = off; set enable_bitmapscan = off; set enable_indexonlyscan = off",
	} {
		answer, err := request.query(ctx, database, "set search_path = pg_catalog; "+settings+"; "+question)
		if err != nil {
			return err
		}
		counts[way] = strings.Join(answer, " ")
	}
	if counts[0] != counts[1] {
		return &ProblemError{Check: "compare the spatial index " + index + " of " + database + " with a scan",
			Said: fmt.Sprintf("it finds %s, the table has %s", counts[0], counts[1])}
	}
	return nil
}

func (r Request) query(ctx context.Context, database, text string) ([]string, error) {
	answer, err := r.ask(ctx, "psql", "--no-psqlrc", "-qXAt", "-v", "ON_ERROR_STOP=1", "--host="+r.Work, "--port=5432",
		"--username="+superuser, "--dbname="+database, "--command="+text)
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(answer, func(r rune) bool { return r == '\n' }), nil
}
