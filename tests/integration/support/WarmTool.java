import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/** Kafka's tools, run again and again in one JVM: a line of class and arguments in, what it said out, both as JSON. */
class WarmTool {
    static class Ended extends Error {}

    static Integer code;

    /** Some tools catch everything, also what is thrown here: what they say and how they exit then does not count. */
    static void exit(int wanted) {
        if (code == null) {
            code = wanted;
            System.setOut(new PrintStream(OutputStream.nullOutputStream()));
            System.setErr(System.out);
        }
        throw new Ended();
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        PrintStream errors = System.err;
        ObjectMapper json = new ObjectMapper();
        Exit.setExitProcedure((wanted, message) -> exit(wanted));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            String[] command = json.readValue(line, String[].class);
            Method tool = Class.forName(command[0]).getMethod("main", String[].class);
            code = null;
            boolean failed = false;
            try {
                tool.invoke(null, (Object) Arrays.copyOfRange(command, 1, command.length));
            } catch (InvocationTargetException thrown) {
                failed = !(thrown.getCause() instanceof Ended);
                if (failed) {
                    thrown.getCause().printStackTrace();
                }
            }
            System.setOut(answers);
            System.setErr(errors);
            Object said =
                    Map.of(
                            "code", code != null ? code : failed ? 1 : 0,
                            "stdout", out.toString(StandardCharsets.UTF_8),
                            "stderr", err.toString(StandardCharsets.UTF_8));
            answers.write(json.writeValueAsBytes(said));
            answers.write('\n');
            answers.flush();
        }
    }
}
