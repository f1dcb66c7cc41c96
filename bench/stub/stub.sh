#!/bin/dash
# Does the same as stub.c, for machines without a C compiler. `date` needs an additional process.
started=$(date +%s.%6N)
echo 'SimulationCraft 1120-01 for World of Warcraft 11.2.0 Live'
for argument; do
    case "$argument" in
        display_build=*) exit 0;;
        html=report.html) echo "<p>$started</p>" > report.html;;
    esac
done
cat > report.json <<END
{"version":"1","report_version":"2.0.0","sim":{"options":{"iterations":10},"players":[{"name":"$started","collected_data":{"dps":{"mean":5,"mean_std_dev":1}}}]}}
END
