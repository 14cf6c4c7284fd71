-- What a server knows about its parameters, extensions and time zones, as one line of JSON: a file of this folder.
-- This line, run for each major version, writes it anew:
--
--   kubectl run catalogue --rm -i -q --restart=Never --image=localhost/meridian/postgis:17 --command -- sh -c '
--     initdb -D /tmp/data -U postgres --locale-provider=icu --icu-locale=und -A trust >/dev/null &&
--     pg_ctl -D /tmp/data -l /tmp/log -w -o "-k /tmp -c listen_addresses= \
--       -c shared_preload_libraries=auto_explain,pg_stat_statements,pg_prewarm,pgaudit,postgis-3" start >/dev/null &&
--     psql -h /tmp -U postgres -X -qAt -f -' <collect.sql >postgres-17.json
--
-- The libraries are loaded so that the parameters of their extensions are known too. A parameter is
-- [name, type, unit, minimum, maximum, choices, context].
LOAD 'postgis_raster-3';
SELECT json_build_object(
  'version', current_setting('server_version'),
  'parameters', (
    SELECT json_agg(json_build_array(name, vartype, coalesce(unit, ''), coalesce(min_val, ''), coalesce(max_val, ''),
      coalesce(array_to_string(enumvals, ','), ''), context) ORDER BY name COLLATE "C")
    FROM pg_settings),
  'extensions', (
    SELECT json_agg(json_build_array(e.name, coalesce(array_to_string(v.requires, ' '), ''))
      ORDER BY e.name COLLATE "C")
    FROM pg_available_extensions e
    JOIN pg_available_extension_versions v ON v.name = e.name AND v.version = e.default_version),
  'timezones', (
    SELECT json_agg(name ORDER BY name COLLATE "C") FROM pg_timezone_names WHERE name !~ '^posix'));
