#!/bin/sh
# Turns an installed Debian tree into an image: takes out the packages and paths listed in leave-out.txt files, every
# set-uid bit, every secret that installing made, and all traces of the time and machine of the build.
#
# usage, inside the tree and as root: trim.sh BUILD_DIR USER UID
#   BUILD_DIR  holds <any>/leave-out.txt; removed at the end
#   USER UID   the one account the image has besides root and nobody; its group has the same name and number
#
# Both ways of building an image, with and without Docker, run this same script as their last step inside the tree.
# The order matters: the list of files is complete before the first file goes, since dpkg itself is on it.
set -eu
LC_ALL=C
export LC_ALL

build=$1
user=$2
uid=$3

cat "$build"/*/leave-out.txt | sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' >"$build/leave-out"
sed -n '/^\//p' "$build/leave-out" >"$build/paths"
sed '/^\//d' "$build/leave-out" >"$build/patterns"

# leftOut succeeds when a pattern of the lists matches the package's name.
leftOut() {
	while read -r pattern; do
		# shellcheck disable=SC2254 # the pattern is meant to be a pattern
		case $1 in $pattern) return 0 ;; esac
	done <"$build/patterns"
	return 1
}

dpkg-query -W -f '${Package} ${binary:Package}\n' | while read -r name instance; do
	if leftOut "$name"; then echo "$name" "$instance"; fi
done >"$build/packages"

# Only files are listed, never folders: a package may own /lib, which is a link that everything else needs.
cut -d ' ' -f 2 "$build/packages" | xargs dpkg-query -L | sort -u | while IFS= read -r path; do
	if [ ! -d "$path" ]; then printf '%s\n' "$path"; fi
done >"$build/files"

# The package database keeps what stays, so that scanners read the truth.
awk -v list="$build/packages" '
	BEGIN { while ((getline < list) > 0) gone[$1] = 1; RS = ""; ORS = "\n\n" }
	!($2 in gone)
' /var/lib/dpkg/status >"$build/status"
cat "$build/status" >/var/lib/dpkg/status
touch /var/lib/dpkg/status

xargs -d '\n' rm -f <"$build/files"
while read -r pattern; do
	# shellcheck disable=SC2086 # unquoted, so that the pattern expands
	rm -rf $pattern
done <"$build/paths"

# Licences are the one kind of documentation that a distributed image has to keep.
find /usr/share/doc -xdev ! -type d ! -name copyright -delete
find /usr/lib /usr/share /etc -xdev -depth -mindepth 1 -type d -empty -delete
find /usr/bin /usr/sbin /usr/lib /etc/alternatives -xdev -xtype l -delete

rm -f /etc/passwd- /etc/group- /etc/shadow* /etc/gshadow* /etc/subuid* /etc/subgid*
cat >/etc/passwd <<END
root:x:0:0:root:/root:/bin/sh
$user:x:$uid:$uid:$user:/tmp:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false
END
cat >/etc/group <<END
root:x:0:
$user:x:$uid:
nogroup:x:65534:
END
# A container runtime puts its own versions of these in place; while Docker builds, they are mounted and read-only.
for file in /etc/hostname /etc/hosts /etc/resolv.conf; do
	if [ -w "$file" ] || [ ! -e "$file" ]; then : >"$file"; fi
done

rm -rf "$build"
find / -xdev ! -type l -perm /6000 -exec chmod ug-s {} +
find / -xdev ! -type l -perm /0022 ! -perm -1000 -exec chmod go-w {} +
find / -xdev \( ! -user 0 -o ! -group 0 \) -exec chown -h 0:0 {} +
ldconfig
rm -rf /var/cache/ldconfig
